/* One pass of a Llama-type decoder over n positions on a CPU: bfloat16 weights, float32 sums.

   A pass over a few positions is bound by how fast weights come from memory, and general matrix products are far from
   that limit where the processor has no bfloat16 instructions. Here each weight is read once for up to six positions, two
   to a 32-bit word, and unpacked by a shift and a mask.

   Each sum is made in an order of its own position and row only. The numbers of a position are therefore the same, bit for
   bit, whether it is passed alone or with others; with that, drafts that are verified together give exactly the text
   that single passes give.

   Weights (rows, columns) lie in blocks of 16 rows: word c * 8 + j of a block holds column c of its row j in the low half
   and of row j + 8 in the high half; the last block is padded with zeros. Widths and head sizes must be multiples of 8.

   Architecture: Llama (Touvron et al. 2023), grouped queries (Ainslie et al. 2023), RMSNorm (Zhang and Sennrich 2019). */

#include <math.h>
#include <omp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LANES 8
#define BLOCK (2 * LANES) /* rows */
#define MOST 6            /* positions for which 2 sums each stay in registers */
#define AHEAD 128         /* columns, 4 kB */
#define NEAR 32           /* keys */
#define INLINE static inline __attribute__((always_inline))

typedef float floats __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef float four __attribute__((vector_size(16)));
typedef uint32_t words __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t integers __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

typedef struct {
    const float *attention_norm, *mlp_norm;
    const words *qkv, *out, *gate_up, *down;
} Layer;

/* Where a position belongs: the cache (layers, 2 * keys, capacity, size) of its sequence, keys before values, and its place there. */
typedef struct {
    float *cache;
    long capacity, place;
} Position;

/* What stands around the layers: a norm at the end, and of an MTP module the join of two vectors a position at the start. */
typedef struct {
    const float *norm, *embedding_norm, *hidden_norm;
    const words *join; /* null where there is none, and then its norms are too */
} Around;

typedef struct {
    long width, queries, keys, size, inner; /* heads that ask, heads that are asked, their size; width inside the MLP */
    float epsilon;
} Shape;

INLINE float sum(floats x) {
    union { floats all; four half[2]; } of = {x};
    four h = of.half[0] + of.half[1];
    return (h[0] + h[2]) + (h[1] + h[3]);
}

INLINE floats larger(floats a, floats b) {
    integers first = a > b;
    return (floats)((first & (integers)a) | (~first & (integers)b));
}

/* e^x to within 2 ulp; 0 below -87, and e^88 above 88. */
INLINE floats exponential(floats x) {
    const floats magic = 12582912.0f + (floats){}; /* 1.5 * 2^23: adding it rounds to whole numbers */
    integers kept = x > -87.0f + (floats){};
    x = -larger(-larger(x, -87.0f + (floats){}), -88.0f + (floats){});
    floats whole = (x * 1.44269504f + magic) - magic;
    floats r = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;
    floats p = 1.9875691500e-4f + (floats){};
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    integers power = (__builtin_convertvector(whole, integers) + 127) << 23;
    return (floats)((integers)(p * (floats)power) & kept);
}

/* Sums of `blocks` blocks of rows at `count` positions, both known when compiled. low[b][t] has rows 0-7, high[b][t] 8-15. */
INLINE void dot(const words *w, long columns, const float *x, int blocks, int count, floats low[][MOST], floats high[][MOST]) {
    floats zero = {};
    words upper = 0xffff0000u + (words){};
    __asm__("" : "+x"(zero), "+x"(upper)); /* no constants: GCC keeps a copy of one and puts a sum of six positions into memory for it */
    for (int b = 0; b < blocks; b++)
        for (int t = 0; t < count; t++) low[b][t] = high[b][t] = zero;
    for (long c = 0; c < columns; c++)
        for (int b = 0; b < blocks; b++) {
            words pair = w[b * columns + c];
            if (c % 2 == 0) __builtin_prefetch(w + b * columns + c + AHEAD); /* a cache line is two columns */
            floats a = (floats)(pair << 16), z = (floats)(pair & upper);
            for (int t = 0; t < count; t++) {
                low[b][t] += a * x[t * columns + c];
                high[b][t] += z * x[t * columns + c];
            }
        }
}

enum { STORE, ADD, GATE };

INLINE void put(floats low, floats high, float *y, long row, long rows, int how) {
    if (how == GATE) { /* rows 0-7 are gates, 8-15 what they let through */
        *(floats *)(y + row / 2) = low / (1.0f + exponential(-low)) * high;
    } else if (row + BLOCK <= rows) {
        floats *to = (floats *)(y + row);
        if (how == ADD) low += to[0], high += to[1];
        to[0] = low, to[1] = high;
    } else {
        for (long j = 0; row + j < rows; j++) {
            float value = j < LANES ? low[j] : high[j - LANES];
            y[row + j] = how == ADD ? y[row + j] + value : value;
        }
    }
}

INLINE void tile(const words *w, long rows, long columns, const float *x, int blocks, int count, float *y, long stride, long row, int how) {
    floats low[4][MOST], high[4][MOST];
    dot(w + row / BLOCK * columns, columns, x, blocks, count, low, high);
    for (int b = 0; b < blocks; b++)
        for (int t = 0; t < count; t++) put(low[b][t], high[b][t], y + t * stride, row + b * BLOCK, rows, how);
}

INLINE void positions(const words *w, long rows, long columns, const float *x, long n, float *y, long stride, long row, int how) {
    for (long t = 0; t < n; t += MOST) {
        const float *from = x + t * columns;
        float *to = y + t * stride;
        switch (n - t) {
            case 1: tile(w, rows, columns, from, 1, 1, to, stride, row, how); break;
            case 2: tile(w, rows, columns, from, 1, 2, to, stride, row, how); break;
            case 3: tile(w, rows, columns, from, 1, 3, to, stride, row, how); break;
            case 4: tile(w, rows, columns, from, 1, 4, to, stride, row, how); break;
            case 5: tile(w, rows, columns, from, 1, 5, to, stride, row, how); break;
            default: tile(w, rows, columns, from, 1, 6, to, stride, row, how);
        }
    }
}

/* This thread's share of the rows of y (n, stride) = x (n, columns) by w. Not inlined: inside a long function the sums leave their registers. */
static __attribute__((noinline)) void multiply(const words *w, long rows, long columns, const float *x, long n, float *y, long stride,
                                               int how) {
    long blocks = (rows + BLOCK - 1) / BLOCK, me = omp_get_thread_num(), all = omp_get_num_threads();
    long b = blocks * me / all, end = blocks * (me + 1) / all;
    /* One or two positions leave registers free, and the multipliers are busy only with eight or more sums at once. */
    for (; n == 1 && b + 4 <= end; b += 4) tile(w, rows, columns, x, 4, 1, y, stride, b * BLOCK, how);
    for (; n == 2 && b + 2 <= end; b += 2) tile(w, rows, columns, x, 2, 2, y, stride, b * BLOCK, how);
    for (; b < end; b++) positions(w, rows, columns, x, n, y, stride, b * BLOCK, how);
}

void product(const words *w, long rows, long columns, const float *x, long n, float *y, int threads) {
#pragma omp parallel num_threads(threads)
    multiply(w, rows, columns, x, n, y, rows, STORE);
}

INLINE void normalize(const float *x, const float *weight, long width, float epsilon, float *y) {
    floats squares = {};
    for (long j = 0; j < width; j += LANES) {
        floats v = *(const floats *)(x + j);
        squares += v * v;
    }
    float scale = 1.0f / sqrtf(sum(squares) / width + epsilon);
    for (long j = 0; j < width; j++) y[j] = x[j] * scale * weight[j];
}

INLINE void rotate(const float *from, const float *turn, long size, float *to) {
    for (long j = 0; j < size; j += 2) {
        float a = from[j], b = from[j + 1];
        to[j] = a * turn[j] - b * turn[j + 1];
        to[j + 1] = a * turn[j + 1] + b * turn[j];
    }
}

/* Queries (group, size) that ask the same `seen` keys and values: y (group, size). A few keys at a time, for all queries while these are
   near. `scores` has `room` for each query: `seen` and LANES more. */
INLINE void attend(const float *queries, const float *keys, const float *values, long seen, long group, const long size, float *scores,
                   long room, float *y) {
    const float scale = 1.0f / sqrtf(size);
    for (long first = 0; first < seen; first += NEAR)
        for (long i = 0; i < group; i++) {
            floats q[size / LANES];
            for (long j = 0; j < size / LANES; j++) q[j] = *(const floats *)(queries + i * size + j * LANES);
            long end = seen < first + NEAR ? seen : first + NEAR;
            for (long s = first; s < end; s++) {
                floats dots[2] = {}; /* two, so that a sum need not wait for the one before */
                for (long j = 0; j < size / LANES; j++) dots[j % 2] += q[j] * *(const floats *)(keys + s * size + j * LANES);
                scores[i * room + s] = sum(dots[0] + dots[1]) * scale;
            }
        }
    for (long i = 0; i < group; i++) { /* e^(score - the largest one), and their sum behind them */
        float *own = scores + i * room;
        floats most = -INFINITY + (floats){}, totals = {};
        for (long j = 0; j < LANES; j++) own[seen + j] = -INFINITY;
        for (long s = 0; s < seen; s += LANES) most = larger(*(floats *)(own + s), most);
        float top = most[0];
        for (int j = 1; j < LANES; j++) top = most[j] > top ? most[j] : top;
        for (long s = 0; s < seen; s += LANES) totals += *(floats *)(own + s) = exponential(*(floats *)(own + s) - top);
        own[seen + LANES - 1] = sum(totals);
    }
    for (long first = 0; first < seen; first += NEAR)
        for (long i = 0; i < group; i++) {
            floats mixed[size / LANES];
            long end = seen < first + NEAR ? seen : first + NEAR;
            for (long j = 0; j < size / LANES; j++) mixed[j] = first ? *(floats *)(y + i * size + j * LANES) : (floats){};
            for (long s = first; s < end; s++)
                for (long j = 0; j < size / LANES; j++) mixed[j] += scores[i * room + s] * *(const floats *)(values + s * size + j * LANES);
            float share = seen <= first + NEAR ? 1.0f / scores[i * room + seen + LANES - 1] : 1.0f;
            for (long j = 0; j < size / LANES; j++) *(floats *)(y + i * size + j * LANES) = mixed[j] * share;
        }
}

INLINE void share(long count, long *from, long *to) {
    long me = omp_get_thread_num(), all = omp_get_num_threads();
    *from = count * me / all, *to = count * (me + 1) / all;
}

/* hidden (n, width) through `count` layers and what is around them, in place; embeds (n, width) where there is a join. Every position
   finds in its cache what comes before it, or comes after it here; its own keys and values are put there. turns (n, size): cosine
   and sine of each pair. Returns 0, or 1 without memory. */
int run(const Layer *layers, long count, const Shape *shape, const Around *around, const float *embeds, float *hidden, long n,
        const Position *at, const float *turns, int threads) {
    const long width = shape->width, queries = shape->queries, keys = shape->keys, size = shape->size, inner = shape->inner;
    const long heads = queries + 2 * keys, asked = queries * size, group = queries / keys;
    long room = 0; /* of one thread, for scores */
    for (long t = 0; t < n; t++) room = at[t].place + 1 + LANES > room ? at[t].place + 1 + LANES : room;
    float *x = malloc(sizeof(float) * (n * (2 * width + heads * size + asked + inner) + threads * group * (room + size)));
    if (!x) return 1;
    float *qkv = x + n * 2 * width, *attended = qkv + n * heads * size, *within = attended + n * asked, *own = within + n * inner;
#pragma omp parallel num_threads(threads)
    {
        float *scores = own + omp_get_thread_num() * group * (room + size), *asking = scores + group * room;
        long from, to;
        share(n, &from, &to);
        if (around->join) {
            for (long t = from; t < to; t++) {
                normalize(embeds + t * width, around->embedding_norm, width, shape->epsilon, x + 2 * t * width);
                normalize(hidden + t * width, around->hidden_norm, width, shape->epsilon, x + (2 * t + 1) * width);
            }
#pragma omp barrier
            multiply(around->join, width, 2 * width, x, n, hidden, width, STORE);
#pragma omp barrier
        }
        for (long l = 0; l < count; l++) {
            const Layer *layer = layers + l;
            share(n, &from, &to);
            for (long t = from; t < to; t++) normalize(hidden + t * width, layer->attention_norm, width, shape->epsilon, x + t * width);
#pragma omp barrier
            multiply(layer->qkv, heads * size, width, x, n, qkv, heads * size, STORE);
#pragma omp barrier
            share(n * keys, &from, &to);
            for (long i = from; i < to; i++) {
                long t = i / keys, h = i % keys, step = at[t].capacity * size;
                const float *key = qkv + (t * heads + queries + h) * size;
                float *held = at[t].cache + (l * 2 * keys + h) * step + at[t].place * size;
                rotate(key, turns + t * size, size, held);
                memcpy(held + keys * step, key + keys * size, sizeof(float) * size);
            }
#pragma omp barrier
#pragma omp for schedule(dynamic, 1) /* ends with a barrier */
            for (long i = 0; i < n * keys; i++) {
                long t = i / keys, h = i % keys, step = at[t].capacity * size, seen = at[t].place + 1;
                const float *k = at[t].cache + (l * 2 * keys + h) * step, *v = k + keys * step;
                float *y = attended + t * asked + h * group * size;
                for (long q = 0; q < group; q++)
                    rotate(qkv + (t * heads + h * group + q) * size, turns + t * size, size, asking + q * size);
                if (size == 64) attend(asking, k, v, seen, group, 64, scores, room, y);
                else if (size == 128) attend(asking, k, v, seen, group, 128, scores, room, y);
                else attend(asking, k, v, seen, group, size, scores, room, y);
            }
            multiply(layer->out, width, asked, attended, n, hidden, width, ADD);
#pragma omp barrier
            share(n, &from, &to);
            for (long t = from; t < to; t++) normalize(hidden + t * width, layer->mlp_norm, width, shape->epsilon, x + t * width);
#pragma omp barrier
            multiply(layer->gate_up, 2 * inner, width, x, n, within, inner, GATE);
#pragma omp barrier
            multiply(layer->down, width, inner, within, n, hidden, width, ADD);
#pragma omp barrier
        }
        share(n, &from, &to);
        if (around->norm)
            for (long t = from; t < to; t++) normalize(hidden + t * width, around->norm, width, shape->epsilon, hidden + t * width);
    }
    free(x);
    return 0;
}
