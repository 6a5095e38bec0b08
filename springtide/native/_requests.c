/* Reads the requests that nearly all are: the header in front of each Produce and Fetch, and a Produce with one batch.
 * springtide/wire/shortcuts.py says what is asked. None means that the reference has to judge the bytes, so that each error
 * is the reference's own. Functions on bytes only, as in _records.c: no state, no call back, no decision. Each length is
 * compared with the bytes that are left before it is added to a pointer.
 *
 * Limited API of CPython 3.11: one binary for every later version. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>

enum { PRODUCE = 0, FETCH = 1 };

#define PRODUCE_MIN 3 /* the first version with a transactional id */
#define PRODUCE_FLEXIBLE 9
#define PRODUCE_BY_ID 13
#define PRODUCE_MAX 13
#define FETCH_MIN 4
#define FETCH_FLEXIBLE 12
#define FETCH_MAX 18

#define HEADER_BYTES 10 /* API, version, correlation id, length of the client id */
#define TOPIC_ID_BYTES 16
#define ONE 2 /* a compact array's count plus one */
#define SHORT_MAX 0x7F
#define LENGTH_BYTES_MAX 4 /* of a varint: longer ones are above any frame */
#define TAGS_BYTES 3 /* of the partition, the topic and the request: none */

typedef struct {
    const uint8_t *next;
    const uint8_t *end;
} Span;

static inline Py_ssize_t
left(const Span *span)
{
    return span->end - span->next;
}

static inline int16_t
take_int16(Span *span)
{
    const uint8_t *at = span->next;
    span->next += 2;
    return (int16_t)((uint16_t)at[0] << 8 | at[1]);
}

static inline int32_t
take_int32(Span *span)
{
    const uint8_t *at = span->next;
    span->next += 4;
    return (int32_t)((uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3]);
}

/* Return a str of the next `size` bytes, of which there are as many; NULL without an error if they are not UTF-8. */
static PyObject *
take_text(Span *span, Py_ssize_t size)
{
    PyObject *text = PyUnicode_DecodeUTF8((const char *)span->next, size, NULL);
    span->next += size;
    if (text == NULL && PyErr_ExceptionMatches(PyExc_UnicodeDecodeError)) {
        PyErr_Clear();
    }
    return text;
}

static PyObject *
none_unless_error(void)
{
    if (PyErr_Occurred()) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
request_header(PyObject *module, PyObject *frame)
{
    (void)module;
    Py_buffer buffer;
    if (PyObject_GetBuffer(frame, &buffer, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    Span span = {buffer.buf, (const uint8_t *)buffer.buf + buffer.len};
    PyObject *client_id = NULL, *header = NULL;
    if (left(&span) < HEADER_BYTES) {
        goto end;
    }
    int api_key = take_int16(&span), version = take_int16(&span);
    int32_t correlation_id = take_int32(&span);
    int client_id_bytes = take_int16(&span);
    int is_known = (api_key == PRODUCE && version >= PRODUCE_MIN && version <= PRODUCE_MAX)
                   || (api_key == FETCH && version >= FETCH_MIN && version <= FETCH_MAX);
    if (!is_known || client_id_bytes < 0 || client_id_bytes > left(&span)) {
        goto end;
    }
    client_id = take_text(&span, client_id_bytes);
    if (client_id == NULL) {
        goto end;
    }
    if (version >= (api_key == PRODUCE ? PRODUCE_FLEXIBLE : FETCH_FLEXIBLE)) {
        if (left(&span) < 1 || *span.next++ != 0) { /* tags */
            goto end;
        }
    }
    Py_ssize_t position = span.next - (const uint8_t *)buffer.buf;
    header = Py_BuildValue("(iiiOn)", api_key, version, (int)correlation_id, client_id, position);
end:
    Py_XDECREF(client_id);
    PyBuffer_Release(&buffer);
    return header != NULL ? header : none_unless_error();
}

typedef struct {
    int acks;
    int32_t timeout_ms;
    PyObject *topic; /* str or bytes, ours */
    int32_t partition;
    Py_ssize_t records_bytes;
} Produce;

/* Read what stands before the records, which are what is left, in versions whose lengths have fixed sizes. Return 0 for any
 * other shape. */
static int
read_fixed(Span *span, Produce *produce)
{
    if (left(span) < 14) {
        return 0;
    }
    int transactional_id_bytes = take_int16(span);
    produce->acks = take_int16(span);
    produce->timeout_ms = take_int32(span);
    int32_t topics = take_int32(span);
    int name_bytes = take_int16(span);
    if (transactional_id_bytes != -1 || topics != 1 || name_bytes < 0 || left(span) - name_bytes < 12) {
        return 0;
    }
    produce->topic = take_text(span, name_bytes);
    int32_t partitions = take_int32(span);
    produce->partition = take_int32(span);
    produce->records_bytes = take_int32(span);
    return produce->topic != NULL && partitions == 1 && produce->records_bytes >= 0
           && produce->records_bytes == left(span);
}

/* The same for versions with compact lengths and tags. */
static int
read_compact(Span *span, int version, Produce *produce)
{
    if (left(span) < 9) {
        return 0;
    }
    int transactional_id_bytes = *span->next++;
    produce->acks = take_int16(span);
    produce->timeout_ms = take_int32(span);
    int topics = *span->next++;
    int name_bytes = version >= PRODUCE_BY_ID ? TOPIC_ID_BYTES : *span->next++ - 1;
    if (transactional_id_bytes != 0 || topics != ONE || name_bytes < 0 || name_bytes >= SHORT_MAX
        || left(span) - name_bytes < 6) {
        return 0;
    }
    if (version >= PRODUCE_BY_ID) {
        produce->topic = PyBytes_FromStringAndSize((const char *)span->next, name_bytes);
        span->next += name_bytes;
    }
    else {
        produce->topic = take_text(span, name_bytes);
    }
    int partitions = *span->next++;
    produce->partition = take_int32(span);
    uint32_t length = 0;
    for (int number = 0;; number++) {
        if (number == LENGTH_BYTES_MAX || left(span) < 1) {
            return 0;
        }
        uint8_t byte = *span->next++;
        length |= (uint32_t)(byte & 0x7F) << (7 * number);
        if (byte < 0x80) {
            break;
        }
    }
    produce->records_bytes = (Py_ssize_t)length - 1;
    if (produce->topic == NULL || partitions != ONE || length == 0
        || produce->records_bytes != left(span) - TAGS_BYTES) {
        return 0;
    }
    const uint8_t *tags = span->next + produce->records_bytes;
    return tags[0] == 0 && tags[1] == 0 && tags[2] == 0;
}

static PyObject *
produce_request(PyObject *module, PyObject *const *arguments, Py_ssize_t argument_count)
{
    (void)module;
    if (argument_count != 3) {
        PyErr_SetString(PyExc_TypeError, "produce_request takes a version, a frame and a position");
        return NULL;
    }
    PyObject *frame = arguments[1];
    long version = PyLong_AsLong(arguments[0]);
    Py_ssize_t position = PyLong_AsSsize_t(arguments[2]);
    if (PyErr_Occurred()) {
        return NULL;
    }
    if (version < PRODUCE_MIN || version > PRODUCE_MAX) {
        Py_RETURN_NONE;
    }
    Py_buffer buffer;
    if (PyObject_GetBuffer(frame, &buffer, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    const uint8_t *bytes = buffer.buf;
    Produce produce = {0};
    PyObject *view = NULL, *records = NULL, *request = NULL;
    if (position >= 0 && position <= buffer.len) {
        Span span = {bytes + position, bytes + buffer.len};
        if (version >= PRODUCE_FLEXIBLE ? read_compact(&span, (int)version, &produce) : read_fixed(&span, &produce)) {
            Py_ssize_t start = span.next - bytes;
            view = PyMemoryView_Check(frame) ? Py_NewRef(frame) : PyMemoryView_FromObject(frame);
            records = view == NULL ? NULL : PySequence_GetSlice(view, start, start + produce.records_bytes);
        }
    }
    if (records != NULL) {
        request = Py_BuildValue("(Oii[(OiO)])", Py_None, produce.acks, (int)produce.timeout_ms, produce.topic,
                                (int)produce.partition, records);
    }
    Py_XDECREF(view);
    Py_XDECREF(records);
    Py_XDECREF(produce.topic);
    PyBuffer_Release(&buffer);
    return request != NULL ? request : none_unless_error();
}

static PyMethodDef methods[] = {
    {"request_header", request_header, METH_O, "request_header(frame): see springtide.wire.shortcuts"},
    {"produce_request", (PyCFunction)(void (*)(void))produce_request, METH_FASTCALL,
     "produce_request(api_version, frame, position): see springtide.wire.shortcuts"},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "springtide.native._requests",
    .m_doc = "Functions on bytes: shorter ways through usual requests.",
    .m_methods = methods,
};

PyMODINIT_FUNC
PyInit__requests(void)
{
    return PyModuleDef_Init(&definition);
}
