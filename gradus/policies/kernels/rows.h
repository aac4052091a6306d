/* What the kernels share: vectors, bfloat16, e^x, norms, and the pieces of attention.

   Vectors are GCC's and Clang's portable ones, sixteen numbers wide; a compiler splits them where registers are narrower. */

#ifndef GRADUS_KERNELS_H
#define GRADUS_KERNELS_H

#include <math.h>
#include <stdint.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif
#ifdef __AVX512BW__
#include <immintrin.h>
#endif

#define WIDE 16  /* numbers in a vector, and places in a block of keys */
#define FOUR 4   /* queries that read a shared prefix together, and blocks of keys that are read together */

typedef float vector __attribute__((vector_size(4 * WIDE)));
typedef int32_t mask __attribute__((vector_size(4 * WIDE)));
typedef float anywhere __attribute__((vector_size(4 * WIDE), aligned(4), may_alias));

static inline vector load(const float *p) { return *(const anywhere *)p; }
static inline void store(float *p, vector x) { *(anywhere *)p = x; }
static inline vector all(float x) { return x - (vector){0}; }
static inline vector pick(mask m, vector a, vector b) { return (vector)(((mask)a & m) | ((mask)b & ~m)); }

/* ---- numbers of float32 or, where `narrow`, of bfloat16: all arithmetic is in float32 ---- */

#define INLINE static inline __attribute__((always_inline)) /* so that `narrow`, a constant at every call, costs nothing */

typedef uint16_t halves __attribute__((vector_size(2 * WIDE)));
typedef uint16_t halves_anywhere __attribute__((vector_size(2 * WIDE), aligned(2), may_alias));
typedef uint32_t words __attribute__((vector_size(4 * WIDE)));

/* To the nearest, ties to even; not a number stays none. */
INLINE halves to_halves(vector x) {
    words bits = (words)x, up = bits + (0x7fff + ((bits >> 16) & 1));
    words none = (words)(x != x);
    words top = ((up >> 16) & ~none) | (none & 0x7fc0);
#ifdef __AVX512BW__ /* one instruction, which GCC does not find */
    return (halves)_mm512_cvtepi32_epi16((__m512i)top);
#else
    return __builtin_convertvector(top, halves);
#endif
}

INLINE vector from_halves(halves x) {
#ifdef __AVX512BW__
    return (vector)_mm512_slli_epi32(_mm512_cvtepu16_epi32((__m256i)x), 16);
#else
    return (vector)(__builtin_convertvector(x, words) << 16);
#endif
}

INLINE const void *at(const void *p, int64_t i, int narrow) { return narrow ? (const void *)((const uint16_t *)p + i) : (const float *)p + i; }

INLINE vector get(const void *p, int64_t i, int narrow) {
    return narrow ? from_halves(*(const halves_anywhere *)((const uint16_t *)p + i)) : load((const float *)p + i);
}

INLINE void put(void *p, int64_t i, vector x, int narrow) {
    if (narrow) *(halves_anywhere *)((uint16_t *)p + i) = to_halves(x);
    else store((float *)p + i, x);
}

/* The first `count` numbers of a vector, the others 0. */
INLINE vector get_some(const void *p, int64_t i, int64_t count, int narrow) {
    if (count >= WIDE) return get(p, i, narrow);
    uint32_t s[WIDE] = {0};
    for (int64_t j = 0; j < count; j++) s[j] = narrow ? (uint32_t)((const uint16_t *)p)[i + j] << 16 : ((const uint32_t *)p)[i + j];
    vector x;
    memcpy(&x, s, sizeof x);
    return x;
}

INLINE void put_some(void *p, int64_t i, vector x, int64_t count, int narrow) {
    if (count >= WIDE) {
        put(p, i, x, narrow);
        return;
    }
    halves h = to_halves(x);
    for (int64_t j = 0; j < count; j++)
        if (narrow) ((uint16_t *)p)[i + j] = h[j];
        else ((float *)p)[i + j] = x[j];
}

/* A number as it is stored: the operations of PyTorch round after each. */
INLINE vector stored(vector x, int narrow) { return narrow ? from_halves(to_halves(x)) : x; }

static inline float total(vector x) {
    float s[WIDE];
    memcpy(s, &x, sizeof s);
    for (int half = WIDE / 2; half; half /= 2)
        for (int i = 0; i < half; i++) s[i] += s[i + half];
    return s[0];
}

static inline float greatest(vector x) {
    float s[WIDE], m;
    memcpy(s, &x, sizeof s);
    m = s[0];
    for (int i = 1; i < WIDE; i++) m = s[i] > m ? s[i] : m;
    return m;
}

/* e^x to about one unit in the last place: 2^n times a polynomial in the rest of x, |rest| <= ln(2) / 2; 0 below the least normal
   number, infinity from 2^127.5 on, and no number where x is none. */
static inline vector exponential(vector x) {
    const float least = -87.33654f, most = 89.0f, shift = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    vector y = pick(x < all(least), all(least), pick(x > all(most), all(most), x));
    vector n = (y * 1.44269504088896341f + shift) - shift;
    vector r = (y - n * 0.693359375f) - n * -2.12194440e-4f;
    vector p = all(1.0f / 5040);
    p = p * r + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    mask bits = (__builtin_convertvector(n, mask) + 127) << 23;
    return (vector)((mask)(p * (vector)bits) & ~(mask)(x < all(least)));
}

static inline vector hyperbolic_tangent(vector x) { return 1.0f - 2.0f / (exponential(x + x) + 1.0f); }

/* ---- rows ---- */

static inline float inverse_root(const float *x, int64_t width, float eps) {
    vector sum = {0};
    float rest = 0;
    int64_t i = 0;
    for (; i + WIDE <= width; i += WIDE) sum += load(x + i) * load(x + i);
    for (; i < width; i++) rest += x[i] * x[i];
    return 1.0f / sqrtf((total(sum) + rest) / (float)width + eps);
}

static inline void scale_by(float *out, const float *x, const float *factor, float by, int64_t width) {
    int64_t i = 0;
    for (; i + WIDE <= width; i += WIDE) store(out + i, load(x + i) * by * load(factor + i));
    for (; i < width; i++) out[i] = x[i] * by * factor[i];
}

static inline vector activation(vector x, int kind) {
    if (kind == 0) return x / (1.0f + exponential(-x));
    return 0.5f * x * (1.0f + hyperbolic_tangent(0.7978845608028654f * (x + 0.044715f * x * x * x)));
}

/* ---- attention ----

   Keys lie in blocks of WIDE places, [place / WIDE][dimension][place % WIDE], values as [place][dimension], both for one sequence and one
   head after the other, with the dimension padded by zeros to a multiple of WIDE. */

/* scores[query][place] of `count` queries [dim] to blocks of keys. Sums run over every `apart`-th dimension, then over these: alone, a block
   would wait for each of its additions. */
INLINE void score(const float *q, int count, int64_t padded, const void *keys, int64_t first, int blocks, int apart,
                  float *scores, int64_t stride, int narrow) {
    vector sum[FOUR][FOUR] = {{{0}}}; /* [query][block or part] */
    for (int64_t d = 0; d < padded; d += apart)
        for (int part = 0; part < apart; part++)
            for (int b = 0; b < blocks; b++) {
                vector k = get(keys, first + (b * padded + d + part) * WIDE, narrow);
                for (int r = 0; r < count; r++) sum[r][b + part] += q[r * padded + d + part] * k;
            }
    for (int r = 0; r < count; r++) {
        if (apart == FOUR) sum[r][0] = (sum[r][0] + sum[r][1]) + (sum[r][2] + sum[r][3]);
        for (int b = 0; b < blocks; b++) store(scores + r * stride + b * WIDE, sum[r][b]);
    }
}

INLINE void score_all(const float *q, int count, int64_t padded, const void *keys, int64_t blocks, float *scores,
                      int64_t stride, int narrow) {
    int64_t b = 0, size = padded * WIDE;
    for (; b + FOUR <= blocks; b += FOUR) score(q, count, padded, keys, b * size, FOUR, 1, scores + b * WIDE, stride, narrow);
    for (; b < blocks; b++) score(q, count, padded, keys, b * size, 1, FOUR, scores + b * WIDE, stride, narrow);
}

/* out[query][dim] += weights[query][place] values[place][dim], `parts` vectors of dimensions at once; even and odd places apart. */
INLINE void blend(const float *weights, int64_t stride, int count, const void *values, int64_t first, int64_t padded,
                  int64_t from, int64_t to, int parts, float *out, int narrow) {
    vector even[FOUR][FOUR], odd[FOUR][FOUR];
    for (int r = 0; r < count; r++)
        for (int p = 0; p < parts; p++) even[r][p] = load(out + r * padded + p * WIDE), odd[r][p] = (vector){0};
    int64_t t = from;
    for (; t + 2 <= to; t += 2)
        for (int p = 0; p < parts; p++) {
            int64_t place = first + t * padded + p * WIDE;
            vector a = get(values, place, narrow), b = get(values, place + padded, narrow);
            for (int r = 0; r < count; r++) even[r][p] += weights[r * stride + t] * a, odd[r][p] += weights[r * stride + t + 1] * b;
        }
    if (t < to)
        for (int p = 0; p < parts; p++)
            for (int r = 0; r < count; r++) even[r][p] += weights[r * stride + t] * get(values, first + t * padded + p * WIDE, narrow);
    for (int r = 0; r < count; r++)
        for (int p = 0; p < parts; p++) store(out + r * padded + p * WIDE, even[r][p] + odd[r][p]);
}

INLINE void blend_all(const float *weights, int64_t stride, int count, const void *values, int64_t padded, int64_t from,
                      int64_t to, float *out, int narrow) {
    int64_t at = 0;
    if (count == 1)
        for (; at + FOUR * WIDE <= padded; at += FOUR * WIDE) blend(weights, stride, 1, values, at, padded, from, to, FOUR, out + at, narrow);
    for (; at + 2 * WIDE <= padded; at += 2 * WIDE) blend(weights, stride, count, values, at, padded, from, to, 2, out + at, narrow);
    for (; at < padded; at += WIDE) blend(weights, stride, count, values, at, padded, from, to, 1, out + at, narrow);
}

/* Scores to weights in place: those outside [first, length) get 0. `blocks` whole blocks. Returns 1 / their sum. */
static inline float soften(float *s, int64_t first, int64_t length, int64_t blocks, float *peak, float scale, float cap) {
    vector top = all(-INFINITY);
    const vector lowest = all(-INFINITY);
    for (int64_t b = 0; b < blocks; b++) {
        vector x = load(s + b * WIDE) * scale;
        if (cap > 0) x = cap * hyperbolic_tangent(x / cap);
        if (b * WIDE < first || (b + 1) * WIDE > length) {
            mask place;
            for (int i = 0; i < WIDE; i++) place[i] = (int32_t)(b * WIDE) + i;
            x = pick((place >= (int32_t)first) & (place < (int32_t)length), x, lowest);
        }
        store(s + b * WIDE, x);
        top = pick(x > top, x, top);
    }
    float m = greatest(top);
    return *peak = m > *peak ? m : *peak;
}

static inline vector weigh(float *s, int64_t blocks, float peak, vector sum) {
    for (int64_t b = 0; b < blocks; b++) {
        vector p = exponential(load(s + b * WIDE) - peak);
        store(s + b * WIDE, p);
        sum += p;
    }
    return sum;
}

#endif
