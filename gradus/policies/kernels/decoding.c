/* What a decoding step does between its matrix products, for float32 on a CPU, each piece in one pass over memory.

   Every row is computed by itself and in an order that depends on nothing but its own length, so its bits are the same in any company and on
   any number of threads. Loaded through ctypes (__init__.py); nothing here allocates, and nothing is kept between calls. */

#include "rows.h"

const uint32_t gradus_source = GRADUS_SOURCE; /* a checksum of the sources, by which a library that is out of date is known */

/* ---- norms ---- */

/* x += y (with a bias; normed first where `after` is given); out = normed x (where `factor` is given). All [rows, width]. */
void gradus_add_norm(float *x, float *y, const float *bias, const float *after, const float *factor, float *out,
                     int64_t rows, int64_t width, float eps, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t row = 0; row < rows; row++) {
        float *a = x + row * width;
        if (y) {
            float *b = y + row * width;
            if (bias) for (int64_t i = 0; i < width; i++) b[i] += bias[i];
            if (after) scale_by(b, b, after, inverse_root(b, width, eps), width);
            for (int64_t i = 0; i < width; i++) a[i] += b[i];
        }
        if (factor) scale_by(out + row * width, a, factor, inverse_root(a, width, eps), width);
    }
}

/* ---- the gated activation ---- */

/* out = activation(gate) * up from joint [rows, 2 width], gate first; kind 0: SiLU, 1: GELU by tanh. */
void gradus_gated(const float *joint, const float *bias, float *out, int64_t rows, int64_t width, int kind, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t row = 0; row < rows; row++) {
        const float *gate = joint + row * 2 * width, *up = gate + width;
        float *to = out + row * width;
        for (int64_t i = 0; i < width; i += WIDE) {
            int64_t left = width - i;
            vector g, u;
            if (left >= WIDE) {
                g = load(gate + i), u = load(up + i);
                if (bias) g += load(bias + i), u += load(bias + width + i);
                store(to + i, activation(g, kind) * u);
            } else {
                g = u = (vector){0};
                for (int64_t j = 0; j < left; j++) {
                    g[j] = gate[i + j] + (bias ? bias[i + j] : 0);
                    u[j] = up[i + j] + (bias ? bias[width + i + j] : 0);
                }
                g = activation(g, kind) * u;
                for (int64_t j = 0; j < left; j++) to[i + j] = g[j];
            }
        }
    }
}

/* ---- attention of one new token a row ---- */

typedef struct {
    int64_t heads, kv_heads, dim, padded, turned; /* turned: dimensions that are rotated in one half */
    int64_t window;                               /* 0: none */
    float scale, cap, eps;                        /* cap 0: none */
    const float *bias, *q_norm, *k_norm;          /* of q, k and v; NULL: none */
    const float *turns;                           /* [context][2][dim]: factors of a dimension and of its partner */
    float *keys, *values;                         /* of the slots' own tokens [slots][kv_heads][capacity * padded] */
    int64_t capacity;
} layer_t;

typedef struct {
    const float *keys; /* of layer 0; a layer is 2 * kv_heads * places * padded numbers: keys, then values, of the prefix */
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

/* Bias, norms and rotation of one row's q and k in place; its key and value go to their place in the cache. */
static void place(const layer_t *l, float *row, int64_t slot, int64_t position, int64_t own) {
    int64_t both = l->heads + l->kv_heads, d = l->dim;
    if (l->bias) for (int64_t i = 0; i < (both + l->kv_heads) * d; i++) row[i] += l->bias[i];
    for (int64_t h = 0; h < both; h++) {
        float *x = row + h * d;
        const float *norm = h < l->heads ? l->q_norm : l->k_norm;
        if (norm) scale_by(x, x, norm, inverse_root(x, d, l->eps), d);
        turn(x, l->turns + position * 2 * d, l);
    }
    for (int64_t h = 0; h < l->kv_heads; h++) {
        int64_t base = (slot * l->kv_heads + h) * l->capacity * l->padded;
        float *keys = l->keys + base + (own / WIDE) * l->padded * WIDE + own % WIDE;
        const float *k = row + (l->heads + h) * d;
        for (int64_t i = 0; i < d; i++) keys[i * WIDE] = k[i];
        memcpy(l->values + base + own * l->padded, row + (both + h) * d, d * sizeof(float));
    }
}

/* What up to FOUR queries read, all of one prefix and one key head; `rows` and `heads` say whose they are. */
static void read(const layer_t *l, int64_t index, const float *joint, float *out, const int64_t *positions, const prefix_t *prefix,
                 const int64_t *rows, const int64_t *heads, int count, int64_t kv_head, float *scratch, int64_t stride) {
    int64_t d = l->dim, padded = l->padded, width = (l->heads + 2 * l->kv_heads) * d;
    float *q = scratch + FOUR * stride, *sums = q + FOUR * padded;
    int64_t shared = prefix->length, ahead = (shared + WIDE - 1) / WIDE;
    const float *pk = prefix->keys + (2 * index * l->kv_heads + kv_head) * prefix->places * padded;
    const float *pv = pk + l->kv_heads * prefix->places * padded;
    memset(q, 0, 2 * FOUR * padded * sizeof(float));
    for (int r = 0; r < count; r++) memcpy(q + r * padded, joint + rows[r] * width + heads[r] * d, d * sizeof(float));
    if (count > 1) score_all(q, FOUR, l->padded, pk, ahead, scratch, stride);
    else score_all(q, 1, l->padded, pk, ahead, scratch, stride);
    float inverse[FOUR];
    for (int r = 0; r < count; r++) {
        float *s = scratch + r * stride, *own = s + ahead * WIDE, peak = -INFINITY;
        int64_t mine = positions[rows[r]] - shared + 1, blocks = (mine + WIDE - 1) / WIDE;
        int64_t first = l->window && positions[rows[r]] >= l->window ? positions[rows[r]] - l->window + 1 : 0;
        int64_t base = (rows[r] * l->kv_heads + kv_head) * l->capacity * padded;
        score_all(q + r * padded, 1, padded, l->keys + base, blocks, own, stride);
        soften(s, first, shared, ahead, &peak, l->scale, l->cap);
        soften(own, first - shared, mine, blocks, &peak, l->scale, l->cap);
        inverse[r] = 1.0f / total(weigh(own, blocks, peak, weigh(s, ahead, peak, (vector){0})));
    }
    if (count > 1) blend_all(scratch, stride, FOUR, pv, padded, 0, shared, sums);
    else blend_all(scratch, stride, 1, pv, padded, 0, shared, sums);
    for (int r = 0; r < count; r++) {
        float *sum = sums + r * padded, *to = out + (rows[r] * l->heads + heads[r]) * d;
        int64_t base = (rows[r] * l->kv_heads + kv_head) * l->capacity * padded;
        blend_all(scratch + r * stride + ahead * WIDE, stride, 1, l->values + base, padded, 0, positions[rows[r]] - shared + 1, sum);
        for (int64_t i = 0; i < d; i++) to[i] = sum[i] * inverse[r];
    }
}

/* One token more for rows of joint [rows, (heads + 2 kv_heads) dim], before bias, norms and rotation: its key and value join the cache, and
   out [rows, heads dim] is what it reads. `prefixes` has one a row; `order` lists the rows so that those of one prefix follow each other, `starts` [blocks + 1] cuts
   them into blocks of one prefix; `scratch` holds FOUR * (stride + 2 padded) numbers a thread. */
void gradus_attend(const layer_t *l, int64_t index, float *joint, float *out, const int64_t *positions, const prefix_t *prefixes,
                   const int64_t *order, const int64_t *starts, int64_t blocks, float *scratch, int64_t stride, int threads) {
    int64_t width = (l->heads + 2 * l->kv_heads) * l->dim, group = l->heads / l->kv_heads, rows = starts[blocks];
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        float *mine = scratch;
#ifdef _OPENMP
        mine += omp_get_thread_num() * FOUR * (stride + 2 * l->padded);
#endif
#pragma omp for schedule(static)
        for (int64_t i = 0; i < rows; i++) {
            int64_t row = order[i];
            place(l, joint + row * width, row, positions[row], positions[row] - prefixes[row].length);
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
                        read(l, index, joint, out, positions, prefix, who, head, count, kv_head, mine, stride);
                        count = 0;
                    }
                }
        }
    }
}

/* ---- the draw ----

   tokens[row]: the first whose cumulative chance under softmax(logits / scale), in double precision, exceeds uniform * total, and its
   log-probability. `each`: 1 where every row has a scale of its own, 0 where they share one. `memory` holds `vocab` numbers a thread. */
void gradus_draw(const float *logits, const float *scales, int64_t each, const double *uniforms, int64_t *tokens, float *logprobs,
                 double *memory, int64_t rows, int64_t vocab, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t row = 0; row < rows; row++) {
        const float *l = logits + row * vocab;
        float scale = scales[row * each], peak = -INFINITY;
        double *sums = memory, sum = 0;
#ifdef _OPENMP
        sums += omp_get_thread_num() * vocab;
#endif
        for (int64_t t = 0; t < vocab; t++) peak = l[t] / scale > peak ? l[t] / scale : peak;
        for (int64_t t = 0; t < vocab; t++) sums[t] = sum += exp((double)(l[t] / scale) - (double)peak);
        /* uniform * total may round up to total, beyond every token; the number below it lies in the last token that has a chance. */
        double target = fmin(uniforms[row] * sum, nextafter(sum, 0.0));
        int64_t low = 0, high = vocab - 1; /* sums never fall, so the first above the target is found by halving */
        while (low < high) {
            int64_t middle = (low + high) / 2;
            if (sums[middle] > target) high = middle;
            else low = middle + 1;
        }
        tokens[row] = low;
        logprobs[row] = (float)((double)(l[low] / scale) - (double)peak - log(sum));
    }
}
