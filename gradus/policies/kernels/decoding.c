/* What a decoding step does between its matrix products, for float32 and bfloat16 on a CPU, each piece in one pass over memory.

   Every row is computed by itself and in an order that depends on nothing but its own length, so its bits are the same in any company and on
   any number of threads. Loaded through ctypes (__init__.py); nothing here allocates, and nothing is kept between calls. */

#include "rows.h"

const uint32_t gradus_source = GRADUS_SOURCE; /* a checksum of the sources, by which a library that is out of date is known */

/* ---- norms ---- */

/* y = y s factor with s = 1 / sqrt(mean y^2 + eps), from `from` to `to`; a bfloat16 is rounded before and after the factor. */
INLINE void norm_row(const void *from, const float *factor, void *to, int64_t width, float eps, int narrow) {
    vector sum = {0};
    for (int64_t i = 0; i < width; i += WIDE) {
        vector x = get_some(from, i, width - i, narrow);
        sum += x * x;
    }
    float scale = 1.0f / sqrtf(total(sum) / (float)width + eps);
    for (int64_t i = 0; i < width; i += WIDE) {
        vector x = stored(get_some(from, i, width - i, narrow) * scale, narrow) * get_some(factor, i, width - i, 0);
        put_some(to, i, x, width - i, narrow);
    }
}

/* x += y (with a bias; normed first where `after` is given); out = normed x (where `factor` is given). All [rows, width]. */
INLINE void add_norm(void *x, void *y, const float *bias, const float *after, const float *factor, void *out, int64_t rows, int64_t width,
                     float eps, int threads, int narrow) {
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t row = 0; row < rows; row++) {
        void *a = (void *)at(x, row * width, narrow);
        if (y) {
            void *b = (void *)at(y, row * width, narrow);
            if (bias)
                for (int64_t i = 0; i < width; i += WIDE)
                    put_some(b, i, get_some(b, i, width - i, narrow) + get_some(bias, i, width - i, 0), width - i, narrow);
            if (after) norm_row(b, after, b, width, eps, narrow);
            for (int64_t i = 0; i < width; i += WIDE)
                put_some(a, i, get_some(a, i, width - i, narrow) + get_some(b, i, width - i, narrow), width - i, narrow);
        }
        if (factor) norm_row(a, factor, (void *)at(out, row * width, narrow), width, eps, narrow);
    }
}

void gradus_add_norm(void *x, void *y, const float *bias, const float *after, const float *factor, void *out, int64_t rows, int64_t width,
                     float eps, int threads, int narrow) {
    if (narrow) add_norm(x, y, bias, after, factor, out, rows, width, eps, threads, 1);
    else add_norm(x, y, bias, after, factor, out, rows, width, eps, threads, 0);
}

/* ---- the gated activation ---- */

/* out = activation(gate) * up from joint [rows, 2 width], gate first; kind 0: SiLU, 1: GELU by tanh. */
INLINE void gated(const void *joint, const float *bias, void *out, int64_t rows, int64_t width, int kind, int threads, int narrow) {
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t row = 0; row < rows; row++) {
        const void *gate = at(joint, row * 2 * width, narrow), *up = at(gate, width, narrow);
        void *to = (void *)at(out, row * width, narrow);
        for (int64_t i = 0; i < width; i += WIDE) {
            vector g = get_some(gate, i, width - i, narrow), u = get_some(up, i, width - i, narrow);
            if (bias) {
                g = stored(g + get_some(bias, i, width - i, 0), narrow);
                u = stored(u + get_some(bias, width + i, width - i, 0), narrow);
            }
            put_some(to, i, stored(activation(g, kind), narrow) * u, width - i, narrow);
        }
    }
}

void gradus_gated(const void *joint, const float *bias, void *out, int64_t rows, int64_t width, int kind, int threads, int narrow) {
    if (narrow) gated(joint, bias, out, rows, width, kind, threads, 1);
    else gated(joint, bias, out, rows, width, kind, threads, 0);
}

/* ---- attention of one new token a row ---- */

typedef struct {
    int64_t heads, kv_heads, dim, padded, turned; /* turned: dimensions that are rotated in one half */
    int64_t window;                               /* 0: none */
    float scale, cap, eps;                        /* cap 0: none */
    const float *bias, *q_norm, *k_norm;          /* of q, k and v; NULL: none */
    const float *turns;                           /* [context][2][dim]: factors of a dimension and of its partner */
    void *keys, *values;                          /* of the slots' own tokens [slots][kv_heads][capacity * padded] */
    int64_t capacity;
} layer_t;

typedef struct {
    const void *keys; /* of layer 0; a layer is 2 * kv_heads * places * padded numbers: keys, then values, of the prefix */
    int64_t length, places;
} prefix_t;

static void turn(float *x, const float *factors, const layer_t *l) {
    const float *own = factors, *partner = factors + l->dim;
    int64_t half = l->turned, i = 0;
    for (; i + WIDE <= half; i += WIDE) {
        vector a = load(x + i), b = load(x + half + i);
        store(x + i, a * load(own + i) + b * load(partner + i));
        store(x + half + i, b * load(own + half + i) + a * load(partner + half + i));
    }
    for (; i < half; i++) {
        float a = x[i], b = x[half + i];
        x[i] = a * own[i] + b * partner[i];
        x[half + i] = b * own[half + i] + a * partner[half + i];
    }
}

/* The bits of a float32 that is a bfloat16 already. */
INLINE uint16_t top_half(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)(bits >> 16);
}

INLINE void round_row(float *x, int64_t width, int narrow) {
    if (narrow)
        for (int64_t i = 0; i < width; i += WIDE) put_some(x, i, stored(get_some(x, i, width - i, 0), 1), width - i, 0);
}

/* Bias, norms and rotation of one row's q and k, from `given` to `row`, which may be the same; its key and value go to their place in the
   cache. */
INLINE void place(const layer_t *l, const void *given, float *row, int64_t slot, int64_t position, int64_t own, int narrow) {
    int64_t both = l->heads + l->kv_heads, d = l->dim, width = (both + l->kv_heads) * d;
    if (narrow)
        for (int64_t i = 0; i < width; i += WIDE) put_some(row, i, get_some(given, i, width - i, 1), width - i, 0);
    if (l->bias) for (int64_t i = 0; i < width; i++) row[i] += l->bias[i];
    if (l->bias) round_row(row, width, narrow);
    for (int64_t h = 0; h < both; h++) {
        float *x = row + h * d;
        const float *norm = h < l->heads ? l->q_norm : l->k_norm;
        if (norm) {
            float by = inverse_root(x, d, l->eps);
            for (int64_t i = 0; i < d; i += WIDE)
                put_some(x, i, stored(get_some(x, i, d - i, 0) * by, narrow) * get_some(norm, i, d - i, 0), d - i, 0);
            round_row(x, d, narrow);
        }
        turn(x, l->turns + position * 2 * d, l);
        round_row(x, d, narrow);
    }
    for (int64_t h = 0; h < l->kv_heads; h++) {
        int64_t base = (slot * l->kv_heads + h) * l->capacity * l->padded;
        int64_t key = base + (own / WIDE) * l->padded * WIDE + own % WIDE;
        const float *k = row + (l->heads + h) * d, *v = row + (both + h) * d;
        if (narrow) for (int64_t i = 0; i < d; i++) ((uint16_t *)l->keys)[key + i * WIDE] = top_half(k[i]);
        else for (int64_t i = 0; i < d; i++) ((float *)l->keys)[key + i * WIDE] = k[i];
        for (int64_t i = 0; i < d; i += WIDE) put_some(l->values, base + own * l->padded + i, get_some(v, i, d - i, 0), d - i, narrow);
    }
}

/* What up to FOUR queries read, all of one prefix and one key head; `rows` and `heads` say whose they are. */
INLINE void read(const layer_t *l, int64_t index, const float *queries, void *out, const int64_t *positions, const prefix_t *prefix,
                 const int64_t *rows, const int64_t *heads, int count, int64_t kv_head, float *scratch, int64_t stride, int narrow) {
    int64_t d = l->dim, padded = l->padded, width = (l->heads + 2 * l->kv_heads) * d;
    float *q = scratch + FOUR * stride, *sums = q + FOUR * padded;
    int64_t shared = prefix->length, ahead = (shared + WIDE - 1) / WIDE;
    const void *pk = at(prefix->keys, (2 * index * l->kv_heads + kv_head) * prefix->places * padded, narrow);
    const void *pv = at(pk, l->kv_heads * prefix->places * padded, narrow);
    memset(q, 0, 2 * FOUR * padded * sizeof(float));
    for (int r = 0; r < count; r++) memcpy(q + r * padded, queries + rows[r] * width + heads[r] * d, d * sizeof(float));
    if (count > 1) score_all(q, FOUR, l->padded, pk, ahead, scratch, stride, narrow);
    else score_all(q, 1, l->padded, pk, ahead, scratch, stride, narrow);
    float inverse[FOUR];
    for (int r = 0; r < count; r++) {
        float *s = scratch + r * stride, *own = s + ahead * WIDE, peak = -INFINITY;
        int64_t mine = positions[rows[r]] - shared + 1, blocks = (mine + WIDE - 1) / WIDE;
        int64_t first = l->window && positions[rows[r]] >= l->window ? positions[rows[r]] - l->window + 1 : 0;
        int64_t base = (rows[r] * l->kv_heads + kv_head) * l->capacity * padded;
        score_all(q + r * padded, 1, padded, at(l->keys, base, narrow), blocks, own, stride, narrow);
        soften(s, first, shared, ahead, &peak, l->scale, l->cap);
        soften(own, first - shared, mine, blocks, &peak, l->scale, l->cap);
        inverse[r] = 1.0f / total(weigh(own, blocks, peak, weigh(s, ahead, peak, (vector){0})));
    }
    if (count > 1) blend_all(scratch, stride, FOUR, pv, padded, 0, shared, sums, narrow);
    else blend_all(scratch, stride, 1, pv, padded, 0, shared, sums, narrow);
    for (int r = 0; r < count; r++) {
        float *sum = sums + r * padded;
        int64_t base = (rows[r] * l->kv_heads + kv_head) * l->capacity * padded, to = (rows[r] * l->heads + heads[r]) * d;
        const void *values = at(l->values, base, narrow);
        blend_all(scratch + r * stride + ahead * WIDE, stride, 1, values, padded, 0, positions[rows[r]] - shared + 1, sum, narrow);
        for (int64_t i = 0; i < d; i += WIDE) put_some(out, to + i, load(sum + i) * inverse[r], d - i, narrow);
    }
}

INLINE void attend(const layer_t *l, int64_t index, const void *joint, float *queries, void *out, const int64_t *positions,
                   const prefix_t *prefixes, const int64_t *order, const int64_t *starts, int64_t blocks, float *scratch, int64_t stride,
                   int threads, int narrow) {
    int64_t width = (l->heads + 2 * l->kv_heads) * l->dim, group = l->heads / l->kv_heads, rows = starts[blocks];
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        float *mine = scratch;
#ifdef _OPENMP
        mine += omp_get_thread_num() * FOUR * (stride + 2 * l->padded);
#endif
#pragma omp for schedule(static)
        for (int64_t i = 0; i < rows; i++) {
            int64_t row = order[i], own = positions[row] - prefixes[row].length;
            place(l, at(joint, row * width, narrow), queries + row * width, row, positions[row], own, narrow);
        }
#pragma omp for schedule(dynamic)
        for (int64_t task = 0; task < blocks * l->kv_heads; task++) {
            int64_t block = task / l->kv_heads, kv_head = task % l->kv_heads, who[FOUR], head[FOUR];
            const prefix_t *prefix = prefixes + order[starts[block]];
            int count = 0;
            for (int64_t i = starts[block]; i < starts[block + 1]; i++)
                for (int64_t g = 0; g < group; g++) {
                    who[count] = order[i], head[count++] = kv_head * group + g;
                    if (count == FOUR || (i + 1 == starts[block + 1] && g + 1 == group)) {
                        read(l, index, queries, out, positions, prefix, who, head, count, kv_head, mine, stride, narrow);
                        count = 0;
                    }
                }
        }
    }
}

/* One token more for rows of joint [rows, (heads + 2 kv_heads) dim], before bias, norms and rotation: its key and value join the cache, and
   out [rows, heads dim] is what it reads. `queries` has the shape of joint, in float32; it is joint itself where joint is float32. `prefixes`
   has one a row; `order` lists the rows so that those of one prefix follow each other, `starts` [blocks + 1] cuts them into blocks of one
   prefix; `scratch` holds FOUR * (stride + 2 padded) numbers a thread. */
void gradus_attend(const layer_t *l, int64_t index, const void *joint, float *queries, void *out, const int64_t *positions,
                   const prefix_t *prefixes, const int64_t *order, const int64_t *starts, int64_t blocks, float *scratch, int64_t stride,
                   int threads, int narrow) {
    if (narrow) attend(l, index, joint, queries, out, positions, prefixes, order, starts, blocks, scratch, stride, threads, 1);
    else attend(l, index, joint, queries, out, positions, prefixes, order, starts, blocks, scratch, stride, threads, 0);
}
