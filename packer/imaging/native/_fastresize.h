/* Resizes pixels by an antialiased bilinear filter: a triangle whose support grows with the scale
 * when shrinking, as Pillow's BILINEAR and torchvision's antialias=True. It calls no Python, so that it
 * can run without the GIL.
 *
 * First rows, then columns, in 16 bits throughout: a level is 128, a weight of one 32,768, and
 * pmulhrsw (x86's SSSE3, of 2006) gives the rounded product of both; AVX2 computes twice as many, see
 * _fastresize_avx2.h. The intermediate is never rounded to whole levels, so that results are within
 * one level of exact arithmetic.
 */

#ifndef PACKER_FASTRESIZE_H
#define PACKER_FASTRESIZE_H

#if !defined(__x86_64__) || !defined(__GNUC__)
#error "written for x86-64 and compilers that know GCC's target attribute"
#endif

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <tmmintrin.h>

#define CHANNELS 3
#define LEVEL_BITS 7 /* 255 << 7 is the most that fits into 15 bits */
#define ONE 32768    /* a weight of one, in pmulhrsw's terms */
#define LANES 8      /* 16-bit numbers in a vector */
#define WITH_SSSE3 __attribute__((target("ssse3")))
/* Each product is rounded to 1/128 of a level; with no more than 34 of them added up, the sum of
 * their errors stays below a seventh of one. */
#define MOST_SHRINKING 16
#define MAX_SIDE 65500

/* Sources of each place of a line: `taps` places of the old line from `first` on. */
typedef struct {
    int taps;
    int *first;
    int16_t *weights; /* taps for each place, zeros at the end where it needs fewer */
} Filter;

typedef struct {
    const uint8_t *data;
    ptrdiff_t row_stride;
    int width, height;
} Source;

typedef struct {
    uint8_t *data; /* without gaps */
    int width, height;
    int mirrored;
} Target;

#include "_fastresize_avx2.h"

static void filter_free(Filter *filter)
{
    free(filter->first);
    free(filter->weights);
}

/* Weights of one place, which add up to ONE exactly, so that even surfaces stay as they are. */
static void weigh(double centre, double support, int first, int count, int16_t *weights)
{
    double sum = 0;
    int rest = ONE, largest = 0;
    for (int tap = 0; tap < count; tap++) {
        double away = fabs(first + tap + 0.5 - centre) / support;
        sum += away < 1 ? 1 - away : 0;
    }
    for (int tap = 0; tap < count; tap++) {
        double away = fabs(first + tap + 0.5 - centre) / support;
        int weight = (int)((away < 1 ? 1 - away : 0) / sum * ONE + 0.5);
        weights[tap] = (int16_t)(weight < ONE ? weight : ONE - 1);
        rest -= weights[tap];
        largest = weights[tap] > weights[largest] ? tap : largest;
    }
    rest += weights[largest];
    weights[largest] = (int16_t)(rest < ONE ? rest : ONE - 1);
}

static int filter_make(Filter *filter, int from, int to)
{
    double scale = (double)from / to, support = scale > 1 ? scale : 1;
    filter->taps = 2 * (int)ceil(support) + 1;
    filter->first = malloc((size_t)to * sizeof *filter->first);
    filter->weights = calloc((size_t)to * filter->taps, sizeof *filter->weights);
    if (filter->first == NULL || filter->weights == NULL) {
        return 0;
    }
    for (int place = 0; place < to; place++) {
        double centre = (place + 0.5) * scale;
        int first = (int)(centre - support + 0.5), end = (int)(centre + support + 0.5);
        first = first > 0 ? first : 0;
        end = end < from ? end : from;
        filter->first[place] = first;
        weigh(centre, support, first, end - first, filter->weights + (size_t)place * filter->taps);
    }
    return 1;
}

/* One row of the target's height, 128 a level: the sum of `taps` rows by their weights. */
WITH_SSSE3 static void add_rows(const Source *source, int first, int taps, const int16_t *weights,
                                int wide, int16_t *line)
{
    int count = source->width * CHANNELS;
    int place = wide ? add_rows_wide(source, first, taps, weights, line) : 0;
    const uint8_t *top = source->data + first * source->row_stride;
    for (; place + 16 <= count; place += 16) {
        const uint8_t *at = top + place;
        __m128i low = _mm_setzero_si128(), high = low;
        for (int tap = 0; tap < taps; tap++, at += source->row_stride) {
            __m128i weight = _mm_set1_epi16(weights[tap]);
            __m128i bytes = _mm_loadu_si128((const __m128i *)at);
            __m128i one = _mm_unpacklo_epi8(bytes, _mm_setzero_si128());
            __m128i two = _mm_unpackhi_epi8(bytes, _mm_setzero_si128());
            one = _mm_mulhrs_epi16(_mm_slli_epi16(one, LEVEL_BITS), weight);
            two = _mm_mulhrs_epi16(_mm_slli_epi16(two, LEVEL_BITS), weight);
            low = _mm_add_epi16(low, one);
            high = _mm_add_epi16(high, two);
        }
        _mm_storeu_si128((__m128i *)(line + place), low);
        _mm_storeu_si128((__m128i *)(line + place + LANES), high);
    }
    for (; place < count; place++) {
        int sum = 0;
        for (int tap = 0; tap < taps; tap++) {
            int level = top[place + tap * source->row_stride] << LEVEL_BITS;
            sum += (level * weights[tap] + ONE / 2) / ONE;
        }
        line[place] = (int16_t)sum;
    }
}

/* Columns' weights as they are multiplied: two pixels of three channels in each vector. The first
 * `wide` places are in the order of make_row_wide. */
static __m128i *pair_weights(const Filter *filter, int places, int pairs, int wide)
{
    __m128i *paired = calloc((size_t)places * pairs, sizeof *paired);
    for (int place = 0; paired != NULL && place < places; place++) {
        const int16_t *weights = filter->weights + (size_t)place * filter->taps;
        for (int tap = 0; tap < filter->taps && tap < 2 * pairs; tap++) {
            size_t at = place < wide ? wide_index(place, tap / 2, pairs)
                                     : (size_t)place * pairs + tap / 2;
            int16_t *lanes = (int16_t *)(paired + at) + tap % 2 * CHANNELS;
            for (int channel = 0; channel < CHANNELS; channel++) {
                lanes[channel] = weights[tap];
            }
        }
    }
    return paired;
}

static int most_taps(const Filter *filter, int places)
{
    int most = 1;
    for (int place = 0; place < places; place++) {
        const int16_t *weights = filter->weights + (size_t)place * filter->taps;
        for (int tap = most; tap < filter->taps; tap++) {
            most = weights[tap] ? tap + 1 : most;
        }
    }
    return most;
}

/* One pixel: its channels are the lowest three numbers, 128 a level. */
WITH_SSSE3 static inline __m128i add_taps(const int16_t *at, const __m128i *weights, int pairs)
{
    __m128i sum = _mm_mulhrs_epi16(_mm_loadu_si128((const __m128i *)at), weights[0]);
    for (int pair = 1; pair < pairs; pair++) {
        __m128i two = _mm_loadu_si128((const __m128i *)(at + pair * 2 * CHANNELS));
        sum = _mm_add_epi16(sum, _mm_mulhrs_epi16(two, weights[pair]));
    }
    return _mm_add_epi16(sum, _mm_srli_si128(sum, CHANNELS * sizeof(int16_t)));
}

WITH_SSSE3 static inline __m128i to_levels(__m128i sums)
{
    return _mm_srai_epi16(_mm_add_epi16(sums, _mm_set1_epi16(1 << (LEVEL_BITS - 1))), LEVEL_BITS);
}

/* One row of the target, of a line of its height; four pixels at a time. */
WITH_SSSE3 static inline __attribute__((always_inline)) void
add_columns(const int16_t *line, const int *first, const __m128i *weights, int pairs, int width,
            uint8_t *row)
{
    const __m128i drop_fourth =
        _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
    int place = 0, last;
    for (; place + 4 <= width; place += 4, row += 4 * CHANNELS, weights += 4 * pairs) {
        __m128i one = add_taps(line + first[place] * CHANNELS, weights, pairs);
        __m128i two = add_taps(line + first[place + 1] * CHANNELS, weights + pairs, pairs);
        __m128i three = add_taps(line + first[place + 2] * CHANNELS, weights + 2 * pairs, pairs);
        __m128i four = add_taps(line + first[place + 3] * CHANNELS, weights + 3 * pairs, pairs);
        one = to_levels(_mm_unpacklo_epi64(one, two));
        three = to_levels(_mm_unpacklo_epi64(three, four));
        one = _mm_shuffle_epi8(_mm_packus_epi16(one, three), drop_fourth);
        _mm_storel_epi64((__m128i *)row, one);
        last = _mm_cvtsi128_si32(_mm_srli_si128(one, 8));
        memcpy(row + 8, &last, 4);
    }
    for (; place < width; place++, row += CHANNELS, weights += pairs) {
        __m128i one = to_levels(add_taps(line + first[place] * CHANNELS, weights, pairs));
        last = _mm_cvtsi128_si32(_mm_packus_epi16(one, one));
        memcpy(row, &last, CHANNELS);
    }
}

/* The same with the number of pairs known to the compiler where it is a usual one: 1 where columns
 * grow, 2 down to half of their number. */
WITH_SSSE3 static void make_row(const int16_t *line, const int *first, const __m128i *paired,
                                int pairs, int width, uint8_t *row)
{
    if (pairs == 1) {
        add_columns(line, first, paired, 1, width, row);
    } else if (pairs == 2) {
        add_columns(line, first, paired, 2, width, row);
    } else {
        add_columns(line, first, paired, pairs, width, row);
    }
}

/* Swaps left and right. */
static void filter_mirror(Filter *filter, int places)
{
    for (int left = 0, right = places - 1; left < right; left++, right--) {
        int first = filter->first[left];
        int16_t *one = filter->weights + (size_t)left * filter->taps;
        int16_t *two = filter->weights + (size_t)right * filter->taps;
        filter->first[left] = filter->first[right];
        filter->first[right] = first;
        for (int tap = 0; tap < filter->taps; tap++) {
            int16_t weight = one[tap];
            one[tap] = two[tap];
            two[tap] = weight;
        }
    }
}

static int resize(const Source *source, const Target *target, int wide)
{
    Filter rows = {0}, columns = {0};
    __m128i *paired = NULL;
    int16_t *line = NULL;
    size_t row_bytes = (size_t)target->width * CHANNELS;
    int first = wide ? target->width / WIDE * WIDE : 0; /* of the pixels that are made singly */
    int pairs = 0, done = filter_make(&rows, source->height, target->height) &&
                          filter_make(&columns, source->width, target->width);
    if (done) {
        pairs = (most_taps(&columns, target->width) + 1) / 2;
        if (target->mirrored) {
            filter_mirror(&columns, target->width);
        }
        paired = pair_weights(&columns, target->width, pairs, first);
        /* Vectors reach behind the line's end, where weights are zero. */
        line = calloc(((size_t)source->width + 2 * pairs) * CHANNELS + LANES, sizeof *line);
        done = paired != NULL && line != NULL;
    }
    for (int row = 0; done && row < target->height; row++) {
        const int16_t *weights = rows.weights + (size_t)row * rows.taps;
        int taps = rows.taps;
        while (taps > 1 && weights[taps - 1] == 0) {
            taps--;
        }
        uint8_t *to = target->data + (size_t)row * row_bytes;
        add_rows(source, rows.first[row], taps, weights, wide, line);
        if (wide) {
            make_row_wide(line, columns.first, paired, pairs, target->width, to);
        }
        make_row(line, columns.first + first, paired + (size_t)first * pairs, pairs,
                 target->width - first, to + first * CHANNELS);
    }
    free(line);
    free(paired);
    filter_free(&columns);
    filter_free(&rows);
    return done;
}

#endif
