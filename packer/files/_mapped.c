/* A file as memory whose pages may go away without ending the process.
 *
 * Touching a mapped page that is no longer in its file (somebody has cut the file short), or that
 * the disk does not give, is a SIGBUS. The handler here puts a page of zeros in its place and
 * counts a fault; whoever used the memory asks afterwards whether there were any. So a fault may
 * happen in any code, in any thread, whatever locks it holds: it just goes on. (Wayland's servers
 * read their clients' buffers in this way.) Signals for other addresses go to the handler that was
 * there before.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Files that can be mapped at a time. A process has fewer descriptors. */
#define PLACES 16384

/* Numbers that tell whether a file was changed. */
#define STAMP 5

/* What the handler knows of a mapping; start is 0 where a place is free. */
typedef struct {
    atomic_uintptr_t start;
    atomic_size_t length;
    atomic_int faults;
} Place;

typedef struct {
    PyObject_HEAD
    PyObject *weak;
    int descriptor;
    Py_ssize_t length; /* of the file when it was mapped */
    Place *place;
    long long accepted[STAMP]; /* see mapped_accept */
} Mapped;

static Place places[PLACES];
static atomic_int used; /* places behind it were never taken */
static uintptr_t page_size;
static struct sigaction before; /* what SIGBUS did */
static volatile sig_atomic_t passed_on;

/* Puts zeros where the file has nothing, from the page of `address` on; returns whether it is one
 * of our mappings. */
static int mend(uintptr_t address)
{
    for (int number = 0; number < atomic_load(&used); number++) {
        uintptr_t start = atomic_load(&places[number].start);
        size_t length = atomic_load(&places[number].length);
        if (start == 0 || address < start || address - start >= length) {
            continue;
        }
        atomic_fetch_add(&places[number].faults, 1);
        uintptr_t page = address & ~(page_size - 1);
        return mmap((void *)page, start + length - page, PROT_READ,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
    }
    return 0;
}

static void on_bus_error(int number, siginfo_t *info, void *context)
{
    int error = errno;
    (void)context;
    /* A number above 0: the kernel sent it, for an address. */
    if (info->si_code <= 0 || !mend((uintptr_t)info->si_addr)) {
        /* As if this handler had never been there: the instruction is repeated. A handler that
         * was installed before ours may pass it on to us, once more; then the process ends. */
        struct sigaction end = {.sa_handler = SIG_DFL};
        sigaction(number, passed_on++ ? &end : &before, NULL);
        if (info->si_code <= 0) {
            raise(number);
        }
    }
    errno = error;
}

PyDoc_STRVAR(arm_doc, "arm()\n--\n\n"
                      "Handle SIGBUS in this process, unless it is handled here already. Others "
                      "(torch, in DataLoader's workers; faulthandler) may have taken it since.");

static PyObject *py_arm(PyObject *module, PyObject *none)
{
    struct sigaction now, ours = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    (void)module;
    (void)none;
    if (sigaction(SIGBUS, NULL, &now) == 0 &&
        !((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_bus_error)) {
        sigemptyset(&ours.sa_mask);
        before = now;
        passed_on = 0;
        sigaction(SIGBUS, &ours, NULL);
    }
    Py_RETURN_NONE;
}

/* A free place; NULL if there is none. Called with the GIL. */
static Place *take_place(void)
{
    int count = atomic_load(&used);
    for (int number = 0; number < count; number++) {
        if (atomic_load(&places[number].start) == 0) {
            return &places[number];
        }
    }
    if (count == PLACES) {
        return NULL;
    }
    atomic_store(&used, count + 1);
    return &places[count];
}

/* Device, inode, size, and times of the last change of content and of anything, in ns. */
static int take_stamp(const Mapped *self, long long *stamp)
{
    struct stat now;
    if (fstat(self->descriptor, &now) < 0) {
        return 0;
    }
#ifdef __APPLE__
    struct timespec content = now.st_mtimespec, any = now.st_ctimespec;
#else
    struct timespec content = now.st_mtim, any = now.st_ctim;
#endif
    const long long second = 1000000000;
    stamp[0] = (long long)now.st_dev;
    stamp[1] = (long long)now.st_ino;
    stamp[2] = (long long)now.st_size;
    stamp[3] = content.tv_sec * second + content.tv_nsec;
    stamp[4] = any.tv_sec * second + any.tv_nsec;
    return 1;
}

/* Maps all of an open file; fails with OSError. */
static int map_all(Mapped *self, int descriptor)
{
    struct stat status;
    Place *place = take_place();
    if (place == NULL) {
        errno = ENOMEM;
        return 0;
    }
    if (fstat(descriptor, &status) < 0) {
        return 0;
    }
    if (status.st_size == 0) {
        errno = EINVAL; /* as mmap says */
        return 0;
    }
    self->descriptor = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    if (self->descriptor < 0 || !take_stamp(self, self->accepted)) {
        return 0;
    }
    void *start = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_SHARED, self->descriptor, 0);
    if (start == MAP_FAILED) {
        return 0;
    }
    self->length = (Py_ssize_t)status.st_size;
    self->place = place;
    atomic_store(&place->faults, 0);
    atomic_store(&place->length, ((size_t)status.st_size + page_size - 1) & ~(page_size - 1));
    atomic_store(&place->start, (uintptr_t)start);
    return 1;
}

static PyObject *mapped_new(PyTypeObject *type, PyObject *arguments, PyObject *names)
{
    int descriptor;
    if (names != NULL && PyDict_GET_SIZE(names) != 0) {
        PyErr_SetString(PyExc_TypeError, "Mapped() takes no keyword arguments");
        return NULL;
    }
    if (!PyArg_ParseTuple(arguments, "i", &descriptor)) {
        return NULL;
    }
    Mapped *self = (Mapped *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->descriptor = -1;
    if (!map_all(self, descriptor)) {
        PyErr_SetFromErrno(PyExc_OSError);
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static void mapped_dealloc(PyObject *object)
{
    Mapped *self = (Mapped *)object;
    if (self->weak != NULL) {
        PyObject_ClearWeakRefs(object);
    }
    if (self->place != NULL) {
        void *start = (void *)atomic_exchange(&self->place->start, 0);
        munmap(start, (size_t)self->length);
    }
    if (self->descriptor >= 0) {
        close(self->descriptor);
    }
    Py_TYPE(object)->tp_free(object);
}

static int mapped_buffer(PyObject *object, Py_buffer *view, int flags)
{
    Mapped *self = (Mapped *)object;
    void *start = (void *)atomic_load(&self->place->start);
    return PyBuffer_FillInfo(view, object, start, self->length, 1, flags);
}

PyDoc_STRVAR(stamp_doc, "stamp()\n--\n\n"
                        "Device, inode, size, and times of the last change of content and of "
                        "anything in ns: other numbers if the file is not what it was.");

static PyObject *mapped_stamp(PyObject *object, PyObject *none)
{
    long long now[STAMP];
    (void)none;
    if (!take_stamp((Mapped *)object, now)) {
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    return Py_BuildValue("(LLLLL)", now[0], now[1], now[2], now[3], now[4]);
}

PyDoc_STRVAR(accept_doc, "accept(stamp)\n--\n\nFrom now on the file is whole with this stamp.");

static PyObject *mapped_accept(PyObject *object, PyObject *stamp)
{
    long long *to = ((Mapped *)object)->accepted;
    if (!PyArg_ParseTuple(stamp, "LLLLL", to, to + 1, to + 2, to + 3, to + 4)) {
        return NULL;
    }
    Py_RETURN_NONE;
}

PyDoc_STRVAR(same_doc, "is_same()\n--\n\n"
                       "Whether it has the stamp that it was mapped with, or that was accepted "
                       "since, and no faults. Keeps the GIL: one system call.");

static PyObject *mapped_is_same(PyObject *object, PyObject *none)
{
    Mapped *self = (Mapped *)object;
    long long now[STAMP];
    (void)none;
    return PyBool_FromLong(atomic_load(&self->place->faults) == 0 && take_stamp(self, now) &&
                           memcmp(now, self->accepted, sizeof now) == 0);
}

PyDoc_STRVAR(fileno_doc, "fileno()\n--\n\nA descriptor of the file, open as long as this object.");

static PyObject *mapped_fileno(PyObject *object, PyObject *none)
{
    (void)none;
    return PyLong_FromLong(((Mapped *)object)->descriptor);
}

static PyObject *mapped_faults(PyObject *object, void *none)
{
    (void)none;
    return PyLong_FromLong(atomic_load(&((Mapped *)object)->place->faults));
}

static PyMethodDef mapped_methods[] = {
    {"stamp", mapped_stamp, METH_NOARGS, stamp_doc},
    {"accept", mapped_accept, METH_O, accept_doc},
    {"is_same", mapped_is_same, METH_NOARGS, same_doc},
    {"fileno", mapped_fileno, METH_NOARGS, fileno_doc},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef mapped_properties[] = {
    {"faults", mapped_faults, NULL, "How many pages could not be read and are zeros now.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyBufferProcs mapped_as_buffer = {mapped_buffer, NULL};

static PyTypeObject mapped_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "packer.files._mapped.Mapped",
    .tp_doc = "Mapped(descriptor)\n--\n\nAll of an open file as memory that can only be read.",
    .tp_basicsize = sizeof(Mapped),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = mapped_new,
    .tp_dealloc = mapped_dealloc,
    .tp_weaklistoffset = offsetof(Mapped, weak),
    .tp_as_buffer = &mapped_as_buffer,
    .tp_methods = mapped_methods,
    .tp_getset = mapped_properties,
};

static PyMethodDef methods[] = {
    {"arm", py_arm, METH_NOARGS, arm_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_mapped", "Maps files.", -1, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__mapped(void)
{
    page_size = (uintptr_t)sysconf(_SC_PAGESIZE);
    if (PyType_Ready(&mapped_type) < 0) {
        return NULL;
    }
    PyObject *module = PyModule_Create(&definition);
    if (module != NULL && PyModule_AddObjectRef(module, "Mapped", (PyObject *)&mapped_type) < 0) {
        Py_CLEAR(module);
    }
    return module;
}
