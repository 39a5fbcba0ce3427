/* Copies past the caches, for mini-batches.
 *
 * A mini-batch is written once, is larger than a core's caches, and is read after later ones have
 * been written. An ordinary store first reads the cache line that it changes, and then
 * displaces other data from the cache; a streaming store does neither.
 *
 * x86-64 has them in its base (SSE2); elsewhere this is memcpy. Figures in docs/decisions/0018.
 */

#ifndef PACKER_STREAM_H
#define PACKER_STREAM_H

#include <stdint.h>
#include <string.h>

/* Bytes of a picture from which on it is worth it: a mini-batch of 32 of these fills the 1 MiB that
 * a core may have for itself. */
#define STREAM_FROM (32u << 10)

#ifdef __SSE2__

#include <emmintrin.h>

/* Like memcpy; visible to other cores after `stream_end`. */
static inline void stream_copy(void *to, const void *from, size_t size)
{
    const size_t step = sizeof(__m128i);
    char *out = to;
    const char *in = from;
    size_t before = (size_t)(-(uintptr_t)out % step); /* a streaming store must be aligned */
    before = before < size ? before : size;
    memcpy(out, in, before);
    for (out += before, in += before, size -= before; size >= step; size -= step) {
        _mm_stream_si128((__m128i *)out, _mm_loadu_si128((const __m128i *)in));
        out += step;
        in += step;
    }
    memcpy(out, in, size);
}

static inline void stream_end(void)
{
    _mm_sfence();
}

#else

static inline void stream_copy(void *to, const void *from, size_t size)
{
    memcpy(to, from, size);
}

static inline void stream_end(void)
{
}

#endif

#endif
