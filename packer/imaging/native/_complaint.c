/* Decodes a whole JPEG, of any components and samplings, for the messages of libjpeg. The pixels are
 * discarded.
 *
 * Optional: packer.imaging.native.complaint returns None if this could not be built.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

PyDoc_STRVAR(first_doc,
             "first(payload) -> str\n\n"
             "The first warning or error of libjpeg while it decodes a JPEG, \"\" if there is none.\n");

typedef struct {
    struct jpeg_error_mgr base; /* first, as libjpeg hands out a pointer to it */
    jmp_buf back;
    char text[JMSG_LENGTH_MAX];
} Judge;

static void leave(j_common_ptr picture)
{
    Judge *judge = (Judge *)picture->err;
    (*judge->base.format_message)(picture, judge->text);
    longjmp(judge->back, 1);
}

static void leave_if_warning(j_common_ptr picture, int level)
{
    if (level < 0) { /* at 0 and above it is a trace message */
        leave(picture);
    }
}

/* Decodes to the end, where libjpeg checks the bytes between the last pixels and the end marker. */
static void decode_all(struct jpeg_decompress_struct *picture)
{
    JSAMPARRAY row;

    picture->out_color_space = picture->jpeg_color_space; /* nothing to convert */
    jpeg_start_decompress(picture);
    row = (*picture->mem->alloc_sarray)(
        (j_common_ptr)picture, JPOOL_IMAGE,
        picture->output_width * (JDIMENSION)picture->output_components, 1);
    while (picture->output_scanline < picture->output_height) {
        jpeg_read_scanlines(picture, row, 1);
    }
    jpeg_finish_decompress(picture);
}

/* Leaves libjpeg's first message in `judge`, "" if there is none. */
static void look_at(const unsigned char *data, size_t size, Judge *judge)
{
    struct jpeg_decompress_struct picture;

    memset(&picture, 0, sizeof picture); /* so that it can be destroyed if it is never created */
    judge->text[0] = '\0';
    picture.err = jpeg_std_error(&judge->base);
    judge->base.error_exit = leave;
    judge->base.emit_message = leave_if_warning;
    if (setjmp(judge->back) == 0) {
        jpeg_create_decompress(&picture);
        jpeg_mem_src(&picture, (unsigned char *)data, (unsigned long)size);
        jpeg_read_header(&picture, TRUE);
        decode_all(&picture);
    }
    jpeg_destroy_decompress(&picture);
}

static PyObject *py_first(PyObject *module, PyObject *argument)
{
    Py_buffer payload;
    Judge judge;

    (void)module;
    if (PyObject_GetBuffer(argument, &payload, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    look_at(payload.buf, (size_t)payload.len, &judge);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&payload);
    return PyUnicode_DecodeLatin1(judge.text, (Py_ssize_t)strlen(judge.text), "replace");
}

static PyMethodDef methods[] = {
    {"first", py_first, METH_O, first_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_complaint", "Messages of libjpeg about a JPEG.", 0, methods,
    NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__complaint(void)
{
    return PyModuleDef_Init(&definition);
}
