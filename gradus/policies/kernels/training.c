/* The pieces of the update between its matrix products, for float32 on a CPU, forward and backward, each in one pass over memory.

   Sums over rows are taken in pieces of a fixed size, in order, so results do not depend on the number of threads. */

#include "rows.h"

/* ---- RMSNorm of rows ---- */

/* out = x s factor and scales[row] = s = 1 / sqrt(mean x^2 + eps); x, out [rows, width]. */
void gradus_norm(const float *x, const float *factor, float *out, float *scales, int64_t rows, int64_t width, float eps, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t row = 0; row < rows; row++) {
        const float *a = x + row * width;
        scales[row] = inverse_root(a, width, eps);
        scale_by(out + row * width, a, factor, scales[row], width);
    }
}

/* With n = x s:  d x = s (g f - n mean(g f n)), and for each piece of `piece` rows its sum of g n, sums [pieces, width] of zeros. */
void gradus_norm_back(const float *grad, const float *x, const float *factor, const float *scales, float *out, float *sums, int64_t rows,
                      int64_t width, int64_t piece, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t first = 0; first < rows; first += piece) {
        float *sum = sums + first / piece * width;
        int64_t last = first + piece < rows ? first + piece : rows, whole = width - width % WIDE;
        for (int64_t row = first; row < last; row++) {
            const float *g = grad + row * width, *a = x + row * width;
            float *to = out + row * width, s = scales[row], rest = 0;
            vector along = {0};
            for (int64_t i = 0; i < whole; i += WIDE) {
                vector product = load(g + i) * (load(a + i) * s);
                store(sum + i, load(sum + i) + product);
                along += product * load(factor + i);
            }
            for (int64_t i = whole; i < width; i++) {
                float product = g[i] * (a[i] * s);
                sum[i] += product;
                rest += product * factor[i];
            }
            float mean = (total(along) + rest) / (float)width;
            for (int64_t i = 0; i < whole; i += WIDE) store(to + i, s * (load(g + i) * load(factor + i) - load(a + i) * s * mean));
            for (int64_t i = whole; i < width; i++) to[i] = s * (g[i] * factor[i] - a[i] * s * mean);
        }
    }
}

/* ---- the gated activation: out = activation(gate) * up ---- */

static inline vector slope(vector x, int kind) {
    if (kind == 0) {
        vector share = 1.0f / (1.0f + exponential(-x));
        return share * (1.0f + x * (1.0f - share));
    }
    const float c = 0.7978845608028654f, a = 0.044715f;
    vector t = hyperbolic_tangent(c * (x + a * x * x * x));
    return 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * c * (1.0f + 3.0f * a * x * x);
}

#define CHUNK 4096 /* numbers that a thread takes at a time */

void gradus_gate(const float *gate, const float *up, float *out, int64_t count, int kind, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t first = 0; first < count; first += CHUNK) {
        int64_t last = first + CHUNK < count ? first + CHUNK : count;
        for (int64_t i = first; i < last; i += WIDE)
            put_some(out, i, activation(get_some(gate, i, last - i, 0), kind) * get_some(up, i, last - i, 0), last - i, 0);
    }
}

void gradus_gate_back(const float *grad, const float *gate, const float *up, float *to_gate, float *to_up, int64_t count, int kind,
                      int threads) {
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t first = 0; first < count; first += CHUNK) {
        int64_t last = first + CHUNK < count ? first + CHUNK : count;
        for (int64_t i = first; i < last; i += WIDE) {
            vector g = get_some(grad, i, last - i, 0), x = get_some(gate, i, last - i, 0);
            put_some(to_up, i, g * activation(x, kind), last - i, 0);
            put_some(to_gate, i, g * get_some(up, i, last - i, 0) * slope(x, kind), last - i, 0);
        }
    }
}

/* ---- attention of packed rows, prefixes shared ----

   Rows of a block are a prefix, which several suffixes go on from; a row sees the rows of its prefix and its own earlier ones. q, k and v are
   rows before rotation. A block and a head of keys are one task, whose sums run in the order of the rows. */

typedef struct {
    int64_t heads, kv_heads, dim, padded, turned, window;
    int64_t q_stride, k_stride, v_stride; /* from a row to the next */
    float scale, cap;
    const float *q, *k, *v, *cosines, *sines; /* the last two [rows, turned] */
} attention_t;

typedef struct {
    int64_t prefix, length, first, count; /* the prefix's first row and length; its suffixes: the first one and how many */
} block_t;

typedef struct {
    int64_t start, length;
} span_t;

static void turned(float *to, const float *from, const attention_t *a, int64_t row, float sign) {
    const float *c = a->cosines + row * a->turned, *s = a->sines + row * a->turned;
    int64_t half = a->turned, i = 0;
    for (; i + WIDE <= half; i += WIDE) {
        vector x = load(from + i), y = load(from + half + i), sine = sign * load(s + i);
        store(to + i, x * load(c + i) - y * sine);
        store(to + half + i, y * load(c + i) + x * sine);
    }
    for (; i < half; i++) {
        float x = from[i], y = from[half + i];
        to[i] = x * c[i] - y * sign * s[i];
        to[half + i] = y * c[i] + x * sign * s[i];
    }
    for (i = 2 * half; i < a->dim; i++) to[i] = from[i];
}

static void across(float *blocks, const float *rows, int64_t count, int64_t padded) { /* [place][dim] to blocks of keys; what is left over is 0 */
    int64_t whole = (count + WIDE - 1) / WIDE;
    for (int64_t b = 0; b < whole; b++)
        for (int64_t d = 0; d < padded; d++)
            for (int64_t i = 0; i < WIDE; i++)
                blocks[(b * padded + d) * WIDE + i] = b * WIDE + i < count ? rows[(b * WIDE + i) * padded + d] : 0;
}

/* What a task has in memory of its own: of prefix and suffix, one after the other, the prefix rounded up to whole blocks of places. */
typedef struct {
    float *keys, *values;               /* [place][dim], keys rotated */
    float *keys_across, *values_across; /* blocks; the latter in backward alone */
    float *to_keys, *to_values;         /* gradients [place][dim]; backward alone */
    float *scores, *slopes;             /* [FOUR][places] */
    float *q, *out, *grad, *to_q;       /* [FOUR][dim] */
} desk_t;

static desk_t desk(float *memory, int64_t places, int64_t padded, int back) {
    desk_t d;
    int64_t size = places * padded;
    float *next = memory;
    d.keys = next, next += size;
    d.values = next, next += size;
    d.keys_across = next, next += size;
    d.scores = next, next += FOUR * places;
    d.q = next, next += FOUR * padded;
    d.out = next, next += FOUR * padded;
    d.values_across = d.to_keys = d.to_values = d.slopes = d.grad = d.to_q = 0;
    if (back) {
        d.values_across = next, next += size;
        d.to_keys = next, next += size;
        d.to_values = next, next += size;
        d.slopes = next, next += FOUR * places;
        d.grad = next, next += FOUR * padded;
        d.to_q = next;
    }
    return d;
}

static void lay(const attention_t *a, int64_t start, int64_t length, int64_t head, int64_t at, desk_t *d) {
    for (int64_t i = 0; i < length; i++) {
        float *k = d->keys + (at + i) * a->padded, *v = d->values + (at + i) * a->padded;
        memset(k, 0, a->padded * sizeof(float));
        memset(v, 0, a->padded * sizeof(float));
        turned(k, a->k + (start + i) * a->k_stride + head * a->dim, a, start + i, 1);
        memcpy(v, a->v + (start + i) * a->v_stride + head * a->dim, a->dim * sizeof(float));
    }
    across(d->keys_across + at * a->padded, d->keys + at * a->padded, length, a->padded);
    if (!d->to_keys) return;
    across(d->values_across + at * a->padded, d->values + at * a->padded, length, a->padded);
    memset(d->to_keys + at * a->padded, 0, length * a->padded * sizeof(float));
    memset(d->to_values + at * a->padded, 0, length * a->padded * sizeof(float));
}

/* Where queries read: `shared` places of the prefix from 0 on, their own places from `at` on. */
typedef struct {
    int64_t start, shared, at;
} region_t;

static inline __attribute__((always_inline)) void both(const float *q, const attention_t *a, const float *across_, const region_t *r, int64_t own,
                                                       float *to, int64_t places) {
    score_all(q, FOUR, a->padded, across_, r->shared ? r->at / WIDE : 0, to, places, 0);
    score_all(q, FOUR, a->padded, across_ + r->at * a->padded, (own + WIDE - 1) / WIDE, to + r->at, places, 0);
}

static void scores(const attention_t *a, const region_t *r, int64_t i, int count, int64_t head, desk_t *d, int64_t places) {
    memset(d->q, 0, FOUR * a->padded * sizeof(float));
    for (int n = 0; n < count; n++) {
        int64_t row = r->start + i + n;
        turned(d->q + n * a->padded, a->q + row * a->q_stride + head * a->dim, a, row, 1);
    }
    both(d->q, a, d->keys_across, r, i + count, d->scores, places);
}

/* The softened scores of one query, those it does not see -infinity, and the greatest. */
static float seen(const attention_t *a, const region_t *r, int64_t i, int64_t own, float *s) {
    int64_t position = r->shared + i, first = a->window && position >= a->window ? position - a->window + 1 : 0;
    float peak = -INFINITY;
    if (r->shared) soften(s, first, r->shared, r->at / WIDE, &peak, a->scale, a->cap);
    soften(s + r->at, first - r->shared, i + 1, (own + WIDE - 1) / WIDE, &peak, a->scale, a->cap);
    return peak;
}

static void forward_rows(const attention_t *a, const region_t *r, int64_t i, int count, int64_t head, desk_t *d, int64_t places, float *out,
                         float *logs) {
    int64_t own = i + count, blocks = (own + WIDE - 1) / WIDE, ahead = r->shared ? r->at / WIDE : 0;
    float sums[FOUR];
    scores(a, r, i, count, head, d, places);
    for (int n = 0; n < FOUR; n++) {
        float *s = d->scores + n * places, peak = seen(a, r, n < count ? i + n : i, own, s);
        sums[n] = total(weigh(s + r->at, blocks, peak, weigh(s, ahead, peak, (vector){0})));
        if (n < count) logs[(r->start + i + n) * a->heads + head] = peak + logf(sums[n]);
    }
    memset(d->out, 0, FOUR * a->padded * sizeof(float));
    blend_all(d->scores, places, FOUR, d->values, a->padded, 0, r->shared, d->out, 0);
    blend_all(d->scores + r->at, places, FOUR, d->values + r->at * a->padded, a->padded, 0, own, d->out, 0);
    for (int n = 0; n < count; n++) {
        float *to = out + ((r->start + i + n) * a->heads + head) * a->dim;
        for (int64_t c = 0; c < a->dim; c++) to[c] = d->out[n * a->padded + c] / sums[n];
    }
}

/* to[place][dim] += weights[query][place] rows[query][dim] */
static inline __attribute__((always_inline)) void spread(const float *weights, int64_t stride, const float *rows, int64_t padded, int64_t count,
                                                         int parts, float *to) {
    vector x[FOUR][FOUR];
    for (int r = 0; r < FOUR; r++)
        for (int p = 0; p < parts; p++) x[r][p] = load(rows + r * padded + p * WIDE);
    for (int64_t t = 0; t < count; t++)
        for (int p = 0; p < parts; p++) {
            vector sum = load(to + t * padded + p * WIDE);
            for (int r = 0; r < FOUR; r++) sum += weights[r * stride + t] * x[r][p];
            store(to + t * padded + p * WIDE, sum);
        }
}

static void spread_all(const float *weights, int64_t stride, const float *rows, int64_t padded, int64_t count, float *to) {
    int64_t at = 0;
    for (; at + FOUR * WIDE <= padded; at += FOUR * WIDE) spread(weights, stride, rows + at, padded, count, FOUR, to + at);
    for (; at < padded; at += WIDE) spread(weights, stride, rows + at, padded, count, 1, to + at);
}

/* p = e^(s - log of the sum) and d s = p (d p - delta), through the cap and the scale, of `blocks` blocks. */
static void slopes(float *s, float *g, int64_t blocks, float log_sum, float delta, float scale, float cap) {
    for (int64_t b = 0; b < blocks; b++) {
        vector x = load(s + b * WIDE), p = exponential(x - log_sum);
        vector ds = p * (load(g + b * WIDE) - delta) * scale;
        if (cap > 0) {
            vector ratio = pick(p > all(0), x / cap, (vector){0});
            ds *= 1.0f - ratio * ratio;
        }
        store(s + b * WIDE, p);
        store(g + b * WIDE, ds);
    }
}

typedef struct {
    const float *out, *logs, *grad; /* of the forward pass, and the gradient of `out` [rows, heads, dim] */
    float *to_q, *to_k, *to_v;      /* [rows, heads or kv_heads, dim] */
} back_t;

static void backward_rows(const attention_t *a, const back_t *b, const region_t *r, int64_t i, int count, int64_t head, desk_t *d,
                          int64_t places) {
    int64_t own = i + count, blocks = (own + WIDE - 1) / WIDE, ahead = r->shared ? r->at / WIDE : 0, padded = a->padded;
    scores(a, r, i, count, head, d, places);
    memset(d->grad, 0, FOUR * padded * sizeof(float));
    for (int n = 0; n < count; n++)
        memcpy(d->grad + n * padded, b->grad + ((r->start + i + n) * a->heads + head) * a->dim, a->dim * sizeof(float));
    both(d->grad, a, d->values_across, r, own, d->slopes, places);
    for (int n = 0; n < FOUR; n++) {
        float *s = d->scores + n * places, *g = d->slopes + n * places;
        if (n >= count) {
            memset(s, 0, (r->at + blocks * WIDE) * sizeof(float));
            memset(g, 0, (r->at + blocks * WIDE) * sizeof(float));
            continue;
        }
        int64_t row = (r->start + i + n) * a->heads + head;
        const float *out = b->out + row * a->dim, *grad = d->grad + n * padded;
        float delta = 0;
        for (int64_t c = 0; c < a->dim; c++) delta += out[c] * grad[c];
        seen(a, r, i + n, own, s);
        slopes(s, g, ahead, b->logs[row], delta, a->scale, a->cap);
        slopes(s + r->at, g + r->at, blocks, b->logs[row], delta, a->scale, a->cap);
    }
    memset(d->to_q, 0, FOUR * padded * sizeof(float));
    blend_all(d->slopes, places, FOUR, d->keys, padded, 0, r->shared, d->to_q, 0);
    blend_all(d->slopes + r->at, places, FOUR, d->keys + r->at * padded, padded, 0, own, d->to_q, 0);
    for (int n = 0; n < count; n++) {
        int64_t row = r->start + i + n;
        turned(b->to_q + (row * a->heads + head) * a->dim, d->to_q + n * padded, a, row, -1);
    }
    spread_all(d->slopes, places, d->q, padded, r->shared, d->to_keys);
    spread_all(d->slopes + r->at, places, d->q, padded, own, d->to_keys + r->at * padded);
    spread_all(d->scores, places, d->grad, padded, r->shared, d->to_values);
    spread_all(d->scores + r->at, places, d->grad, padded, own, d->to_values + r->at * padded);
}

static void take(const attention_t *a, const back_t *b, int64_t start, int64_t length, int64_t head, int64_t at, const desk_t *d) {
    for (int64_t i = 0; i < length; i++) {
        int64_t to = ((start + i) * a->kv_heads + head) * a->dim;
        turned(b->to_k + to, d->to_keys + (at + i) * a->padded, a, start + i, -1);
        memcpy(b->to_v + to, d->to_values + (at + i) * a->padded, a->dim * sizeof(float));
    }
}

static void task(const attention_t *a, const block_t *block, const span_t *spans, int64_t head, float *memory, int64_t places, float *out,
                 float *logs, const back_t *back) {
    desk_t d = desk(memory, places, a->padded, back != 0);
    int64_t at = (block->length + WIDE - 1) / WIDE * WIDE, group = a->heads / a->kv_heads;
    if (block->length) lay(a, block->prefix, block->length, head, 0, &d);
    for (int64_t n = -1; n < block->count; n++) { /* the prefix's own rows, then every suffix */
        region_t r = {block->prefix, 0, 0};
        int64_t length = block->length;
        if (n >= 0) {
            r = (region_t){spans[block->first + n].start, block->length, at};
            length = spans[block->first + n].length;
            lay(a, r.start, length, head, at, &d);
        }
        for (int64_t g = 0; g < group; g++)
            for (int64_t i = 0; i < length; i += FOUR) {
                int count = length - i < FOUR ? (int)(length - i) : FOUR;
                if (back) backward_rows(a, back, &r, i, count, head * group + g, &d, places);
                else forward_rows(a, &r, i, count, head * group + g, &d, places, out, logs);
            }
        if (back && n >= 0) take(a, back, r.start, length, head, at, &d);
    }
    if (back && block->length) take(a, back, block->prefix, block->length, head, 0, &d);
}

/* out [rows, heads, dim] and logs [rows, heads], the log of each softmax's sum; with `back`, the gradients instead. `memory` holds `size`
   numbers a thread, `places` the places of the longest prefix and suffix, both in whole blocks. */
void gradus_packed_attention(const attention_t *a, const block_t *blocks, int64_t count, const span_t *spans, float *memory, int64_t size,
                             int64_t places, float *out, float *logs, const back_t *back, int threads) {
#pragma omp parallel for num_threads(threads) schedule(dynamic) if (threads > 1)
    for (int64_t t = 0; t < count * a->kv_heads; t++) {
        float *mine = memory;
#ifdef _OPENMP
        mine += omp_get_thread_num() * size;
#endif
        task(a, blocks + t / a->kv_heads, spans, t % a->kv_heads, mine, places, out, logs, back);
    }
}
