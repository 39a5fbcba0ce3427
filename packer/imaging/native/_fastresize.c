/* Resizes pixels without the GIL, see _fastresize.h.
 *
 * Optional: packer.imaging.native.fastresize works without it. Nearly all of
 * the time of a random crop at training's sizes is spent here or in decoding.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "_fastresize.h"

/* Whether a buffer is rows of pixels of three bytes; rows may lie apart. */
static int is_picture(const Py_buffer *view)
{
    return view->ndim == 3 && view->itemsize == 1 && view->shape[2] == CHANNELS &&
           view->strides[2] == 1 && (view->strides[1] == CHANNELS || view->shape[1] == 1) &&
           view->shape[0] >= 1 && view->shape[0] <= MAX_SIDE && view->shape[1] >= 1 &&
           view->shape[1] <= MAX_SIDE;
}

PyDoc_STRVAR(resize_doc,
             "resize(pixels, out, mirrored, narrow=False) -> None\n\n"
             "Resize pixels to the size of `out`.\n\n"
             "Args:\n"
             "    pixels: H\303\227W\303\2273 uint8; rows may lie apart, pixels not.\n"
             "    out: As pixels, C-contiguous; shares no memory with them.\n"
             "    mirrored: Mirror left and right as well.\n"
             "    narrow: Do as on a processor without AVX2; the result is the same.\n\n"
             "Raises:\n"
             "    ValueError: Not such buffers, or a side shrinks more than MOST_SHRINKING "
             "times.\n");

static PyObject *resize_views(const Py_buffer *pixels, const Py_buffer *out, int mirrored,
                              int wide)
{
    Source source = {pixels->buf, 0, 0, 0};
    Target target = {out->buf, 0, 0, mirrored};
    int done;
    if (!is_picture(pixels) || !is_picture(out)) {
        PyErr_SetString(PyExc_ValueError, "not H\303\227W\303\2273 uint8");
        return NULL;
    }
    source.row_stride = pixels->strides[0];
    source.height = (int)pixels->shape[0];
    source.width = (int)pixels->shape[1];
    target.height = (int)out->shape[0];
    target.width = (int)out->shape[1];
    if (source.height > MOST_SHRINKING * target.height ||
        source.width > MOST_SHRINKING * target.width) {
        PyErr_SetString(PyExc_ValueError, "shrinks more than MOST_SHRINKING times");
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    done = resize(&source, &target, wide);
    Py_END_ALLOW_THREADS
    if (!done) {
        return PyErr_NoMemory();
    }
    Py_RETURN_NONE;
}

static PyObject *py_resize(PyObject *module, PyObject *arguments)
{
    PyObject *from, *to, *result = NULL;
    Py_buffer pixels, out;
    int mirrored, narrow = 0;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OOp|p", &from, &to, &mirrored, &narrow) ||
        PyObject_GetBuffer(from, &pixels, PyBUF_STRIDES) < 0) {
        return NULL;
    }
    if (PyObject_GetBuffer(to, &out, PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS) == 0) {
        result = resize_views(&pixels, &out, mirrored,
                              !narrow && __builtin_cpu_supports("avx2"));
        PyBuffer_Release(&out);
    }
    PyBuffer_Release(&pixels);
    return result;
}

static PyMethodDef methods[] = {
    {"resize", py_resize, METH_VARARGS, resize_doc},
    {NULL, NULL, 0, NULL},
};

static int start(PyObject *module)
{
    if (!__builtin_cpu_supports("ssse3")) {
        PyErr_SetString(PyExc_ImportError, "this processor lacks SSSE3");
        return -1;
    }
    return PyModule_AddIntMacro(module, MOST_SHRINKING);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, start},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_fastresize", "Resizes pixels.", 0, methods, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__fastresize(void)
{
    return PyModuleDef_Init(&definition);
}
