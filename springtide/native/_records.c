/* Walks the records of one batch: springtide/wire/record_walk.py says what a sound batch is, and this file
 * answers as it does, for any bytes (tests/unit/springtide/native). Beside it the whole check of a plain batch, which
 * springtide/wire/shortcuts.py asks for. Functions on bytes only: nothing here holds state,
 * calls back, decides, or gives the interpreter's lock away while it reads. No read passes `end`, and a pointer never goes
 * beyond it: each length is compared with the bytes that are left before it is added.
 *
 * Limited API of CPython 3.11, the first that has the buffer protocol: one binary for every later version. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>

#define VARINT_BYTES_MAX 5
#define VARLONG_BYTES_MAX 10
#define NULL_LENGTH (-1)

#define BATCH_HEADER_BYTES 61 /* springtide/wire/record_batch.py has the layout */
#define LENGTH_FIELD_END 12
#define MAGIC 2
#define RECORDS_MAX 1000000
#define NO_TIMESTAMP (-1)
#define NO_PRODUCER_ID (-1)

typedef struct {
    const uint8_t *next;
    const uint8_t *end;
} Span;

typedef struct {
    int64_t min_timestamp_delta;
    int64_t max_timestamp_delta;
    int64_t max_timestamp_offset_delta;
} Walk;

/* Read a zigzag varint of at most five bytes, whose 35 bits are all kept. Return 0 if it does not end in time. */
static inline int
read_varint(Span *span, int64_t *value)
{
    uint64_t raw = 0;
    for (int number = 0; number < VARINT_BYTES_MAX; number++) {
        if (span->next == span->end) {
            return 0;
        }
        uint8_t byte = *span->next++;
        raw |= (uint64_t)(byte & 0x7F) << (7 * number);
        if (byte < 0x80) {
            *value = (int64_t)(raw >> 1) ^ -(int64_t)(raw & 1);
            return 1;
        }
    }
    return 0;
}

/* Read a zigzag varlong of at most ten bytes. Return 0 if it does not end in time, or exceeds 64 bits: the tenth byte has
 * room for one bit. */
static inline int
read_varlong(Span *span, int64_t *value)
{
    uint64_t raw = 0;
    for (int number = 0; number < VARLONG_BYTES_MAX; number++) {
        if (span->next == span->end) {
            return 0;
        }
        uint8_t byte = *span->next++;
        if (number == VARLONG_BYTES_MAX - 1 && byte > 1) {
            return 0;
        }
        raw |= (uint64_t)(byte & 0x7F) << (7 * number);
        if (byte < 0x80) {
            *value = (int64_t)(raw >> 1) ^ -(int64_t)(raw & 1);
            return 1;
        }
    }
    return 0;
}

/* Pass over a length and the bytes that it counts. Return 0 if they leave the span, or it is below `length_min`. */
static inline int
skip_sized(Span *span, int64_t length_min)
{
    int64_t length;
    if (!read_varint(span, &length) || length < length_min || length > span->end - span->next) {
        return 0;
    }
    if (length > 0) {
        span->next += length;
    }
    return 1;
}

/* Walk one record, whose offset delta has to be `number`. Return 0 if it is not sound. */
static inline int
walk_record(Span *batch, int64_t number, int64_t key_length_min, int64_t *timestamp_delta)
{
    int64_t length, offset_delta, header_count;
    if (!read_varint(batch, &length) || length <= 0 || length > batch->end - batch->next) {
        return 0;
    }
    Span record = {batch->next + 1, batch->next + length}; /* after the attributes */
    if (!read_varlong(&record, timestamp_delta) || !read_varint(&record, &offset_delta) || offset_delta != number
        || !skip_sized(&record, key_length_min) || !skip_sized(&record, NULL_LENGTH)
        || !read_varint(&record, &header_count) || header_count < 0
        || header_count > (record.end - record.next) / 2) {
        return 0;
    }
    for (; header_count > 0; header_count--) {
        if (!skip_sized(&record, 0) || !skip_sized(&record, NULL_LENGTH)) {
            return 0;
        }
    }
    batch->next = record.end;
    return record.next == record.end;
}

/* Walk a whole batch. Return 0 if it is not sound. */
static int
walk_batch(Span batch, int64_t record_count, int needs_keys, Walk *walk)
{
    if (record_count < 1) {
        return 0;
    }
    for (int64_t number = 0; number < record_count; number++) {
        int64_t delta;
        if (!walk_record(&batch, number, needs_keys ? 0 : NULL_LENGTH, &delta)) {
            return 0;
        }
        if (number == 0) {
            *walk = (Walk){delta, delta, 0};
        }
        else if (delta > walk->max_timestamp_delta) {
            walk->max_timestamp_delta = delta;
            walk->max_timestamp_offset_delta = number;
        }
        else if (delta < walk->min_timestamp_delta) {
            walk->min_timestamp_delta = delta;
        }
    }
    return batch.next == batch.end;
}

static PyObject *
walk_records(PyObject *module, PyObject *const *arguments, Py_ssize_t argument_count)
{
    (void)module;
    if (argument_count != 3) {
        PyErr_SetString(PyExc_TypeError, "walk_records takes a payload, a record count and whether keys are needed");
        return NULL;
    }
    int is_beyond_64_bits; /* then the count is -1, which no batch has, as none has so many */
    int64_t record_count = PyLong_AsLongLongAndOverflow(arguments[1], &is_beyond_64_bits);
    if (record_count == -1 && PyErr_Occurred()) {
        return NULL;
    }
    int needs_keys = PyObject_IsTrue(arguments[2]);
    if (needs_keys < 0) {
        return NULL;
    }
    Py_buffer payload;
    if (PyObject_GetBuffer(arguments[0], &payload, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    const uint8_t *bytes = payload.buf;
    Walk walk = {0, 0, 0};
    int is_sound = walk_batch((Span){bytes, bytes + payload.len}, record_count, needs_keys, &walk);
    PyBuffer_Release(&payload);
    if (!is_sound) {
        walk = (Walk){0, 0, 0};
    }
    return Py_BuildValue("(iLLL)", !is_sound, (long long)walk.min_timestamp_delta,
                         (long long)walk.max_timestamp_delta, (long long)walk.max_timestamp_offset_delta);
}

static inline int16_t
int16_at(const uint8_t *at)
{
    return (int16_t)((uint16_t)at[0] << 8 | at[1]);
}

static inline int32_t
int32_at(const uint8_t *at)
{
    return (int32_t)((uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3]);
}

static inline int64_t
int64_at(const uint8_t *at)
{
    return (int64_t)((uint64_t)(uint32_t)int32_at(at) << 32 | (uint32_t)int32_at(at + 4));
}

/* Read a bound. None has none, and so has what exceeds 64 bits: `is_beyond` then says that the reference has to judge. */
static inline int
read_bound(PyObject *bound, int64_t otherwise, int64_t *value, int *is_beyond)
{
    *value = otherwise;
    if (bound == Py_None) {
        return 0;
    }
    int overflow;
    *value = PyLong_AsLongLongAndOverflow(bound, &overflow);
    *is_beyond |= overflow != 0;
    return *value == -1 && PyErr_Occurred() ? -1 : 0;
}

/* Return whether a batch that is `size` bytes long, at least a header's, passes all checks but that of its CRC. */
static int
is_plain(const uint8_t *at, Py_ssize_t size, int needs_keys, int64_t timestamp_min, int64_t timestamp_max)
{
    int64_t base_timestamp = int64_at(at + 27), producer_id = int64_at(at + 43);
    int32_t record_count = int32_at(at + 57);
    if (int64_at(at) != 0 || (int64_t)int32_at(at + 8) + LENGTH_FIELD_END != size || at[16] != MAGIC
        || int16_at(at + 21) != 0 || record_count > RECORDS_MAX
        || (int64_t)int32_at(at + 23) + 1 != record_count) {
        return 0;
    }
    if (producer_id != NO_PRODUCER_ID
        && (producer_id < 0 || int16_at(at + 51) < 0 || int32_at(at + 53) < 0)) {
        return 0;
    }
    Walk walk;
    int64_t least, most;
    return walk_batch((Span){at + BATCH_HEADER_BYTES, at + size}, record_count, needs_keys, &walk)
           && !__builtin_add_overflow(base_timestamp, walk.min_timestamp_delta, &least)
           && !__builtin_add_overflow(base_timestamp, walk.max_timestamp_delta, &most)
           && (least >= timestamp_min || (least == NO_TIMESTAMP && most == NO_TIMESTAMP)) && most <= timestamp_max
           && (most > NO_TIMESTAMP ? most : NO_TIMESTAMP) == int64_at(at + 35);
}

static PyObject *
plain_batch(PyObject *module, PyObject *const *arguments, Py_ssize_t argument_count)
{
    (void)module;
    if (argument_count != 5) {
        PyErr_SetString(PyExc_TypeError, "plain_batch takes a batch, its bound, whether keys are needed, and two times");
        return NULL;
    }
    int64_t bytes_max, timestamp_min, timestamp_max;
    int is_beyond = 0, needs_keys = PyObject_IsTrue(arguments[2]);
    if (needs_keys < 0 || read_bound(arguments[1], INT64_MAX, &bytes_max, &is_beyond) < 0
        || read_bound(arguments[3], INT64_MIN, &timestamp_min, &is_beyond) < 0
        || read_bound(arguments[4], INT64_MAX, &timestamp_max, &is_beyond) < 0) {
        return NULL;
    }
    Py_buffer batch;
    if (PyObject_GetBuffer(arguments[0], &batch, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    PyObject *header = NULL;
    const uint8_t *at = batch.buf;
    if (!is_beyond && batch.len >= BATCH_HEADER_BYTES && batch.len <= bytes_max
        && is_plain(at, batch.len, needs_keys, timestamp_min, timestamp_max)) {
        header = Py_BuildValue("(LiiiIiiLLLiii)", (long long)int64_at(at), (int)int32_at(at + 8),
                               (int)int32_at(at + 12), MAGIC, (unsigned int)int32_at(at + 17), 0,
                               (int)int32_at(at + 23), (long long)int64_at(at + 27), (long long)int64_at(at + 35),
                               (long long)int64_at(at + 43), (int)int16_at(at + 51), (int)int32_at(at + 53),
                               (int)int32_at(at + 57));
        if (header == NULL) {
            PyBuffer_Release(&batch);
            return NULL;
        }
    }
    PyBuffer_Release(&batch);
    if (header == NULL) {
        Py_RETURN_NONE;
    }
    return header;
}

static PyMethodDef methods[] = {
    {"walk_records", (PyCFunction)(void (*)(void))walk_records, METH_FASTCALL,
     "walk_records(payload, record_count, needs_keys): see springtide.wire.record_walk"},
    {"plain_batch", (PyCFunction)(void (*)(void))plain_batch, METH_FASTCALL,
     "plain_batch(batch, bytes_max, needs_keys, timestamp_ms_min, timestamp_ms_max): see springtide.wire.shortcuts"},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "springtide.native._records",
    .m_doc = "Functions on bytes, as springtide.wire has them in Python.",
    .m_methods = methods,
};

PyMODINIT_FUNC
PyInit__records(void)
{
    return PyModuleDef_Init(&definition);
}
