/* Decodes a rectangle of each of several JPEGs and resizes it into its place in a mini-batch, all in
 * one go without the GIL: see _region.h and _fastresize.h.
 *
 * Optional: packer.imaging.native.pieces works without it. With one call for
 * each step of each picture, threads wait for one another's Python in between.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "_fastresize.h"
#include "_region.h"

/* The piece of a picture: a row of NUMBERS int32. */
typedef struct {
    int32_t width, height;           /* whole picture */
    int32_t left, top;               /* rectangle, counted after scaling */
    int32_t wide, high;              /* rectangle */
    int32_t divisor, fast, mirrored; /* see Wanted and Target */
} Piece;
#define NUMBERS 9

typedef struct {
    const Piece *pieces;
    const Py_buffer *payloads; /* buf is NULL for a missing one */
    unsigned char *places;     /* of Target's size each, one after the other */
    Target target;             /* what all places have in common */
    Py_ssize_t count;
} Run;

static int has_targets_size(const Piece *piece, const Target *target)
{
    return piece->wide == target->width && piece->high == target->height;
}

static size_t bytes_of(const Piece *piece)
{
    return (size_t)piece->wide * (size_t)piece->high * CHANNELS;
}

/* Whether a piece can be made here, apart from what its payload holds. A mirrored one of the right
 * size is left to whoever mirrors without resizing. */
static int is_for_us(const Piece *piece, const Py_buffer *payload, const Target *target)
{
    return payload->buf != NULL && !(has_targets_size(piece, target) && piece->mirrored) &&
           piece->wide <= (int64_t)MOST_SHRINKING * target->width &&
           piece->high <= (int64_t)MOST_SHRINKING * target->height;
}

/* 1 if the piece is in its place, else 0; `room` has the bytes of it. */
static int make(const Piece *piece, const Py_buffer *payload, Target *target, unsigned char *room,
                int avx2)
{
    int direct = has_targets_size(piece, target);
    Rectangle place = {direct ? target->data : room, (JDIMENSION)piece->left,
                       (JDIMENSION)piece->top, (JDIMENSION)piece->wide, (JDIMENSION)piece->high};
    Wanted wanted = {(JDIMENSION)piece->width, (JDIMENSION)piece->height,
                     (unsigned int)piece->divisor, piece->fast};
    Source source = {room, (ptrdiff_t)piece->wide * CHANNELS, piece->wide, piece->high};

    if (place.pixels == NULL || !decode(payload->buf, (size_t)payload->len, &place, &wanted)) {
        return 0;
    }
    target->mirrored = piece->mirrored;
    return direct || resize(&source, target, avx2);
}

/* Sets `done` for each picture that is in its place. */
static void make_all(const Run *run, int avx2, unsigned char *done)
{
    Target target = run->target;
    size_t place_bytes = (size_t)target.width * (size_t)target.height * CHANNELS, most = 0;
    unsigned char *room;

    for (Py_ssize_t number = 0; number < run->count; number++) {
        const Piece *piece = run->pieces + number;
        int resized = is_for_us(piece, run->payloads + number, &target) &&
                      !has_targets_size(piece, &target);
        most = resized && bytes_of(piece) > most ? bytes_of(piece) : most;
    }
    room = most > 0 ? malloc(most) : NULL; /* NULL: pieces that need it are not made */
    for (Py_ssize_t number = 0; number < run->count; number++) {
        const Piece *piece = run->pieces + number;
        const Py_buffer *payload = run->payloads + number;
        target.data = run->places + (size_t)number * place_bytes;
        done[number] = is_for_us(piece, payload, &target) &&
                       make(piece, payload, &target, room, avx2);
    }
    free(room);
}

static int is_possible(const Piece *piece)
{
    int divisor = piece->divisor;
    return piece->width >= 1 && piece->height >= 1 && piece->left >= 0 && piece->top >= 0 &&
           piece->wide >= 1 && piece->high >= 1 && piece->wide <= MAX_SIDE &&
           piece->high <= MAX_SIDE &&
           (divisor == 1 || divisor == 2 || divisor == 4 || divisor == 8);
}

static int take_arguments(const Py_buffer *pieces, const Py_buffer *out, Run *run)
{
    if (out->ndim != 4 || out->itemsize != 1 || out->shape[0] != run->count ||
        out->shape[1] < 1 || out->shape[1] > MAX_SIDE || out->shape[2] < 1 ||
        out->shape[2] > MAX_SIDE || out->shape[3] != CHANNELS) {
        PyErr_SetString(PyExc_ValueError, "out has no place of H\303\227W\303\2273 for each");
        return 0;
    }
    if (pieces->ndim != 2 || pieces->itemsize != (Py_ssize_t)sizeof(int32_t) ||
        pieces->shape[0] != run->count || pieces->shape[1] != NUMBERS) {
        PyErr_SetString(PyExc_ValueError, "pieces are not 9 int32 for each");
        return 0;
    }
    run->pieces = pieces->buf;
    run->places = out->buf;
    run->target.height = (int)out->shape[1];
    run->target.width = (int)out->shape[2];
    for (Py_ssize_t number = 0; number < run->count; number++) {
        if (!is_possible(run->pieces + number)) {
            PyErr_SetString(PyExc_ValueError, "no JPEG has such a piece");
            return 0;
        }
    }
    return 1;
}

/* Opens all payloads that are there; 0 and an exception set if one is no buffer. */
static int open_payloads(PyObject *payloads, Py_buffer *views, Py_ssize_t count)
{
    for (Py_ssize_t number = 0; number < count; number++) {
        PyObject *payload = PyList_GET_ITEM(payloads, number);
        if (payload != Py_None && PyObject_GetBuffer(payload, views + number, PyBUF_SIMPLE) < 0) {
            return 0;
        }
    }
    return 1;
}

/* Numbers of those that are not done. */
static PyObject *list_left(const unsigned char *done, Py_ssize_t count)
{
    PyObject *left = PyList_New(0);
    for (Py_ssize_t number = 0; left != NULL && number < count; number++) {
        if (!done[number]) {
            PyObject *item = PyLong_FromSsize_t(number);
            if (item == NULL || PyList_Append(left, item) < 0) {
                Py_CLEAR(left);
            }
            Py_XDECREF(item);
        }
    }
    return left;
}

static PyObject *make_run(PyObject *payloads, const Py_buffer *pieces, const Py_buffer *out)
{
    Run run = {.count = PyList_GET_SIZE(payloads)};
    Py_buffer *views = PyMem_Calloc((size_t)run.count + 1, sizeof *views);
    unsigned char *done = PyMem_Calloc((size_t)run.count + 1, 1);
    PyObject *left = NULL;

    if (views == NULL || done == NULL) {
        PyErr_NoMemory();
    } else if (take_arguments(pieces, out, &run) && open_payloads(payloads, views, run.count)) {
        int avx2 = __builtin_cpu_supports("avx2");
        run.payloads = views;
        Py_BEGIN_ALLOW_THREADS
        make_all(&run, avx2, done);
        Py_END_ALLOW_THREADS
        left = list_left(done, run.count);
    }
    for (Py_ssize_t number = 0; views != NULL && number < run.count; number++) {
        PyBuffer_Release(views + number); /* does nothing if none was opened */
    }
    PyMem_Free(done);
    PyMem_Free(views);
    return left;
}

PyDoc_STRVAR(make_doc,
             "make(payloads, pieces, out) -> list\n\n"
             "Decode a rectangle of each JPEG and resize it into its place in `out`.\n\n"
             "Args:\n"
             "    payloads: A list of JPEGs; None: it is not there.\n"
             "    pieces: int32, 9 for each: width and height of the whole picture; left, top,\n"
             "        width and height of the rectangle, counted after scaling; scale by one over\n"
             "        1, 2, 4 or 8; whether with small deviations; whether to mirror it.\n"
             "    out: N\303\227H\303\227W\303\2273 uint8, C-contiguous.\n\n"
             "Returns:\n"
             "    Numbers of pieces for which libjpeg gave an error or warning; their places hold\n"
             "    anything.\n\n"
             "Raises:\n"
             "    ValueError: Arrays of another form, or an invalid piece.\n");

static PyObject *py_make(PyObject *module, PyObject *arguments)
{
    PyObject *payloads, *numbers, *to, *left = NULL;
    Py_buffer pieces, out;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "O!OO", &PyList_Type, &payloads, &numbers, &to) ||
        PyObject_GetBuffer(numbers, &pieces, PyBUF_C_CONTIGUOUS) < 0) {
        return NULL;
    }
    if (PyObject_GetBuffer(to, &out, PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS) == 0) {
        left = make_run(payloads, &pieces, &out);
        PyBuffer_Release(&out);
    }
    PyBuffer_Release(&pieces);
    return left;
}

static PyMethodDef methods[] = {
    {"make", py_make, METH_VARARGS, make_doc},
    {NULL, NULL, 0, NULL},
};

static int start(PyObject *module)
{
    (void)module;
    if (!__builtin_cpu_supports("ssse3")) {
        PyErr_SetString(PyExc_ImportError, "this processor lacks SSSE3");
        return -1;
    }
    return 0;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, start},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_pieces", "Makes pieces of JPEGs.", 0, methods, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__pieces(void)
{
    return PyModuleDef_Init(&definition);
}
