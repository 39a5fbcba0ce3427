/* Decodes a rectangle of a JPEG without the GIL, see _region.h.
 *
 * Optional: packer.imaging.native.region works without it.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "_region.h"

PyDoc_STRVAR(decode_doc,
             "decode(payload, out, size, corner, divisor, fast) -> bool\n\n"
             "Decode a rectangle of a JPEG into `out`.\n\n"
             "Args:\n"
             "    payload: The JPEG.\n"
             "    out: H\303\227W\303\2273 uint8, C-contiguous; its size is the rectangle's.\n"
             "    size: (width, height) that the whole picture must have.\n"
             "    corner: (left, top) of the rectangle, counted in pixels after scaling.\n"
             "    divisor: Scale by one over 1, 2, 4 or 8.\n"
             "    fast: With the fast inverse transform and plain upsampling.\n\n"
             "Returns:\n"
             "    Whether libjpeg gave no error or warning; if it did, `out` is undefined.\n\n"
             "Raises:\n"
             "    ValueError: An argument is invalid.\n");

static int take_arguments(const Py_buffer *out, const int size[2], const int corner[2],
                          Rectangle *place, Wanted *wanted)
{
    unsigned int divisor = wanted->divisor;
    if (out->ndim != 3 || out->itemsize != 1 || out->shape[2] != CHANNELS) {
        PyErr_SetString(PyExc_ValueError, "out is not H\303\227W\303\2273 uint8");
        return 0;
    }
    if (out->shape[0] > JPEG_MAX_DIMENSION || out->shape[1] > JPEG_MAX_DIMENSION ||
        size[0] < 1 || size[1] < 1 || corner[0] < 0 || corner[1] < 0) {
        PyErr_SetString(PyExc_ValueError, "no JPEG has such a rectangle");
        return 0;
    }
    if (divisor != 1 && divisor != 2 && divisor != 4 && divisor != 8) {
        PyErr_SetString(PyExc_ValueError, "divisor is none of 1, 2, 4, 8");
        return 0;
    }
    wanted->width = (JDIMENSION)size[0];
    wanted->height = (JDIMENSION)size[1];
    place->pixels = out->buf;
    place->height = (JDIMENSION)out->shape[0];
    place->width = (JDIMENSION)out->shape[1];
    place->left = (JDIMENSION)corner[0];
    place->top = (JDIMENSION)corner[1];
    return 1;
}

static PyObject *py_decode(PyObject *module, PyObject *arguments)
{
    Py_buffer payload, out;
    PyObject *target;
    Rectangle place;
    Wanted wanted;
    int size[2], corner[2], ok, done = 0;

    (void)module;
    if (!PyArg_ParseTuple(arguments, "y*O(ii)(ii)Ip", &payload, &target, &size[0], &size[1],
                          &corner[0], &corner[1], &wanted.divisor, &wanted.fast)) {
        return NULL;
    }
    if (PyObject_GetBuffer(target, &out, PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS) < 0) {
        PyBuffer_Release(&payload);
        return NULL;
    }
    ok = take_arguments(&out, size, corner, &place, &wanted);
    if (ok) {
        Py_BEGIN_ALLOW_THREADS
        done = decode(payload.buf, (size_t)payload.len, &place, &wanted);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&out);
    PyBuffer_Release(&payload);
    return ok ? PyBool_FromLong(done) : NULL;
}

static PyMethodDef methods[] = {
    {"decode", py_decode, METH_VARARGS, decode_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_region", "Decodes rectangles of JPEGs.", 0, methods,
    NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__region(void)
{
    return PyModuleDef_Init(&definition);
}
