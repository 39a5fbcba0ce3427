/* Copies the same rectangle from the raw pixels of many pictures, without the GIL.
 *
 * Optional: packer.imaging.native.cutting works without it. A rectangle of 224 x 224 is copied in 15 us;
 * let go of the GIL and take it again for each, and threads spend as much on waiting for it.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string.h>

#include "_stream.h"

#define CHANNELS 3

typedef struct {
    Py_ssize_t width, height; /* of each picture */
    Py_ssize_t left, top;
} Place;

/* Copies from each picture; `out` has count x rows x columns x CHANNELS bytes. */
static void cut_pictures(const Py_buffer *pictures, Py_ssize_t count, const Place *place,
                         Py_ssize_t rows, Py_ssize_t columns, char *out)
{
    size_t line = (size_t)(place->width * CHANNELS), wanted = (size_t)(columns * CHANNELS);
    int streamed = wanted * (size_t)rows >= STREAM_FROM;
    for (Py_ssize_t number = 0; number < count; number++) {
        const char *from = (const char *)pictures[number].buf + place->top * line;
        from += place->left * CHANNELS;
        for (Py_ssize_t row = 0; row < rows; row++, from += line, out += wanted) {
            if (streamed) {
                stream_copy(out, from, wanted);
            } else {
                memcpy(out, from, wanted);
            }
        }
    }
    stream_end();
}

/* Whether the rectangle lies inside pictures of this size. */
static int fits(const Place *place, Py_ssize_t rows, Py_ssize_t columns)
{
    return place->left >= 0 && place->top >= 0 && place->width >= columns &&
           place->height >= rows && place->left <= place->width - columns &&
           place->top <= place->height - rows;
}

/* Fills `views` with those of the pictures; returns how many, fewer if one is not of that size. */
static Py_ssize_t open_pictures(PyObject *pictures, Py_ssize_t size, Py_buffer *views)
{
    Py_ssize_t count = PyList_GET_SIZE(pictures), opened = 0;
    for (; opened < count; opened++) {
        PyObject *picture = PyList_GET_ITEM(pictures, opened);
        if (picture == Py_None || PyObject_GetBuffer(picture, &views[opened], PyBUF_SIMPLE) < 0) {
            break;
        }
        if (views[opened].len != size) {
            PyBuffer_Release(&views[opened]);
            break;
        }
    }
    return opened;
}

static PyObject *cut_views(PyObject *pictures, const Place *place, Py_buffer *out)
{
    Py_ssize_t count = PyList_GET_SIZE(pictures);
    if (out->ndim != 4 || out->itemsize != 1 || out->shape[0] != count ||
        out->shape[3] != CHANNELS || !fits(place, out->shape[1], out->shape[2])) {
        PyErr_SetString(PyExc_ValueError, "no such rectangle, or no room of its size");
        return NULL;
    }
    Py_buffer *views = PyMem_Calloc((size_t)count + 1, sizeof *views);
    if (views == NULL) {
        return PyErr_NoMemory();
    }
    Py_ssize_t size = place->width * place->height * CHANNELS;
    Py_ssize_t opened = open_pictures(pictures, size, views);
    int whole = opened == count && !PyErr_Occurred();
    if (whole) {
        Py_BEGIN_ALLOW_THREADS
        cut_pictures(views, count, place, out->shape[1], out->shape[2], out->buf);
        Py_END_ALLOW_THREADS
    }
    while (opened > 0) {
        PyBuffer_Release(&views[--opened]);
    }
    PyMem_Free(views);
    return PyErr_Occurred() ? NULL : PyBool_FromLong(whole);
}

PyDoc_STRVAR(cut_doc, "cut(pictures, size, corner, out)\n--\n\n"
                      "Copy a rectangle of pictures of size (width, height), a list of bytes each, "
                      "from corner (left, top) on into N x H x W x 3 bytes; False, and nothing is "
                      "copied, if one is None or has another size.");

static PyObject *py_cut(PyObject *module, PyObject *arguments)
{
    PyObject *pictures, *to, *result;
    Place place;
    Py_buffer out;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "O!(nn)(nn)O", &PyList_Type, &pictures, &place.width,
                          &place.height, &place.left, &place.top, &to) ||
        PyObject_GetBuffer(to, &out, PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS) < 0) {
        return NULL;
    }
    result = cut_views(pictures, &place, &out);
    PyBuffer_Release(&out);
    return result;
}

static PyMethodDef methods[] = {
    {"cut", py_cut, METH_VARARGS, cut_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_cutting", "Cuts pixels.", 0, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__cutting(void)
{
    return PyModuleDef_Init(&definition);
}
