/* Decodes a rectangle of a JPEG, by libjpeg-turbo: its rows and columns only, at 1/1 to 1/8 of the
 * picture's size, into given memory. It calls no Python, so that it can run without the GIL.
 *
 * Payloads may be hostile. libjpeg's errors and warnings both end in a longjmp and in a return value of 0;
 * the caller then decodes the whole picture and reports the error. Only the rows of the rectangle are
 * written, whose size is checked against the picture's before decoding.
 */

#ifndef PACKER_REGION_H
#define PACKER_REGION_H

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

#ifndef LIBJPEG_TURBO_VERSION
#error "decoding rectangles needs libjpeg-turbo: IJG's libjpeg has no jpeg_crop_scanline"
#endif

#define CHANNELS 3
/* Rows that are asked for at a time: libjpeg gives at most 2 in one go where the chroma has half
 * the rows, 1 where it has all of them. */
#define ROWS 2
/* Bytes by which rows are moved off the 32-byte borders that libjpeg allocates them at: there its
 * colour conversion stores past the cache, and reading them back costs 15 % of the whole. */
#define OFF_BORDER 1

typedef struct {
    unsigned char *pixels; /* height rows of width pixels, without gaps */
    JDIMENSION left, top, width, height;
} Rectangle;

typedef struct {
    JDIMENSION width, height; /* of the whole picture, by its index */
    unsigned int divisor;     /* 1, 2, 4 or 8 */
    int fast;
} Wanted;

typedef struct {
    struct jpeg_error_mgr base; /* first, as libjpeg hands out a pointer to it */
    jmp_buf back;
} Messages;

static void leave(j_common_ptr picture)
{
    longjmp(((Messages *)picture->err)->back, 1);
}

static void leave_if_warning(j_common_ptr picture, int level)
{
    if (level < 0) { /* at 0 and above it is a trace message */
        leave(picture);
    }
}

static void write_nothing(j_common_ptr picture)
{
    (void)picture;
}

/* Of a progressive picture, each of whose scans goes through all of it. As in head_jpeg.py. */
#define MOST_SCANS 100

static void leave_if_many_scans(j_common_ptr picture)
{
    if (((j_decompress_ptr)picture)->input_scan_number > MOST_SCANS) {
        leave(picture);
    }
}

/* A file that lacks its end is not whole, even if the rectangle is. */
static int has_end(const unsigned char *data, size_t size)
{
    return size >= 4 && data[size - 2] == 0xFF && data[size - 1] == JPEG_EOI;
}

static int is_as_expected(const struct jpeg_decompress_struct *picture, const Wanted *wanted)
{
    J_COLOR_SPACE space = picture->jpeg_color_space;
    return picture->image_width == wanted->width && picture->image_height == wanted->height &&
           picture->data_precision == 8 &&
           (space == JCS_GRAYSCALE || space == JCS_YCbCr || space == JCS_RGB);
}

static int is_inside(const struct jpeg_decompress_struct *picture, const Rectangle *place)
{
    return place->width > 0 && place->height > 0 && place->left < picture->output_width &&
           place->top < picture->output_height &&
           place->width <= picture->output_width - place->left &&
           place->height <= picture->output_height - place->top;
}

/* Whether scans of a progressive picture are missing that a whole one has. libjpeg then smooths
 * across blocks, which it does otherwise at the edges of a rectangle than in the whole picture. */
static int lacks_scans(const struct jpeg_decompress_struct *picture)
{
    if (!picture->progressive_mode || picture->coef_bits == NULL) {
        return 0;
    }
    for (int component = 0; component < picture->num_components; component++) {
        for (int coefficient = 0; coefficient < DCTSIZE2; coefficient++) {
            if (picture->coef_bits[component][coefficient] != 0) { /* -1: never, above 0: in part */
                return 1;
            }
        }
    }
    return 0;
}

/* Restricts a picture to the columns around a rectangle; returns the first of them.
 *
 * Fancy upsampling mixes each chroma sample with its neighbours, which libjpeg takes for absent
 * beyond the columns that it decodes: one chroma sample more on each side gives what the whole
 * picture would. (On the left libjpeg goes on to the next iMCU by itself.) */
static JDIMENSION keep_columns(struct jpeg_decompress_struct *picture, const Rectangle *place)
{
    JDIMENSION margin = (JDIMENSION)picture->max_h_samp_factor;
    JDIMENSION first = place->left > margin ? place->left - margin : 0;
    JDIMENSION after = picture->output_width - (place->left + place->width);
    JDIMENSION count = place->left + place->width - first + (after < margin ? after : margin);
    if (count < picture->output_width) {
        jpeg_crop_scanline(picture, &first, &count);
    }
    return first;
}

static void read_rows(struct jpeg_decompress_struct *picture, const Rectangle *place)
{
    JDIMENSION first = keep_columns(picture, place);
    size_t row_bytes = (size_t)place->width * CHANNELS;
    size_t skipped_bytes = (size_t)(place->left - first) * CHANNELS;
    JSAMPARRAY rows = (*picture->mem->alloc_sarray)(
        (j_common_ptr)picture, JPOOL_IMAGE, picture->output_width * CHANNELS + OFF_BORDER, ROWS);
    unsigned char *next = place->pixels;
    JDIMENSION left = place->height;

    for (int row = 0; row < ROWS; row++) {
        rows[row] += OFF_BORDER;
    }
    if (place->top > 0) {
        jpeg_skip_scanlines(picture, place->top);
    }
    while (left > 0) {
        JDIMENSION count = jpeg_read_scanlines(picture, rows, left < ROWS ? left : ROWS);
        if (count == 0) {
            leave((j_common_ptr)picture); /* impossible: all data are in memory */
        }
        for (JDIMENSION row = 0; row < count; row++, next += row_bytes) {
            memcpy(next, rows[row] + skipped_bytes, row_bytes);
        }
        left -= count;
    }
}

/* 1 if the rectangle was decoded without an error or warning, else 0. */
static int decode(const unsigned char *data, size_t size, const Rectangle *place,
                  const Wanted *wanted)
{
    struct jpeg_decompress_struct picture;
    struct jpeg_progress_mgr progress;
    Messages messages;
    volatile int done = 0;

    if (!has_end(data, size)) {
        return 0;
    }
    memset(&picture, 0, sizeof picture); /* so that it can be destroyed if it is never created */
    picture.err = jpeg_std_error(&messages.base);
    messages.base.error_exit = leave;
    messages.base.emit_message = leave_if_warning;
    messages.base.output_message = write_nothing;
    if (setjmp(messages.back) == 0) {
        jpeg_create_decompress(&picture);
        jpeg_mem_src(&picture, (unsigned char *)data, (unsigned long)size);
        jpeg_read_header(&picture, TRUE);
        if (is_as_expected(&picture, wanted)) {
            if (jpeg_has_multiple_scans(&picture)) {
                progress.progress_monitor = leave_if_many_scans;
                picture.progress = &progress;
            }
            picture.out_color_space = JCS_RGB;
            picture.scale_num = 1;
            picture.scale_denom = wanted->divisor;
            picture.dct_method = wanted->fast ? JDCT_IFAST : JDCT_ISLOW;
            picture.do_fancy_upsampling = wanted->fast ? FALSE : TRUE;
            jpeg_calc_output_dimensions(&picture);
            if (is_inside(&picture, place)) {
                jpeg_start_decompress(&picture);
                if (!lacks_scans(&picture)) {
                    read_rows(&picture, place);
                    done = 1;
                }
            }
        }
    }
    jpeg_destroy_decompress(&picture);
    return done;
}

#endif
