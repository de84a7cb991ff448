/* What the fast engine asks of a compiler: sums of one unit each (a record, or a person), in single precision. */

#include <stdlib.h>
#include <string.h>

#define LANES 16
#define MOST 12
#define AT_ONCE 1024 /* places that are added up one after the other */
typedef float lanes __attribute__((vector_size(4 * LANES)));
typedef double wide_lanes __attribute__((vector_size(8 * LANES)));

#define TILE(COUNT)                                                                                                 \
    static void one_##COUNT(const float *image, const lanes *slopes, const long *places, long count, lanes *made)   \
    {                                                                                                               \
        for (int each = 0; each < COUNT; each++) made[each] = (lanes){0};                                           \
        for (long place = 0; place < count;) {                                                                      \
            const long stop = count - place > AT_ONCE ? place + AT_ONCE : count;                                    \
            lanes sums[COUNT] = {0};                                                                                \
            for (; place < stop; place++) {                                                                         \
                const float *patch = image + places[place];                                                         \
                const lanes slope = slopes[place];                                                                  \
                _Pragma("GCC unroll 16") for (int each = 0; each < COUNT; each++) sums[each] += slope * patch[each]; \
            }                                                                                                       \
            _Pragma("GCC unroll 16") for (int each = 0; each < COUNT; each++) made[each] += sums[each];             \
        }                                                                                                           \
    }                                                                                                               \
    static void two_##COUNT(const float *image, const lanes *slopes, const long *places, long count, lanes *made)   \
    {                                                                                                               \
        for (int each = 0; each < 2 * MOST; each++) made[each] = (lanes){0};                                        \
        for (long place = 0; place < count;) {                                                                      \
            const long stop = count - place > AT_ONCE ? place + AT_ONCE : count;                                    \
            lanes sums[COUNT] = {0}, more[COUNT] = {0};                                                             \
            for (; place < stop; place++) {                                                                         \
                const float *patch = image + places[place];                                                         \
                const lanes slope = slopes[place], next = slopes[count + place];                                    \
                _Pragma("GCC unroll 16") for (int each = 0; each < COUNT; each++) {                                 \
                    const lanes value = patch[each] - (lanes){0};                                                   \
                    sums[each] += slope * value;                                                                    \
                    more[each] += next * value;                                                                     \
                }                                                                                                   \
            }                                                                                                       \
            _Pragma("GCC unroll 16") for (int each = 0; each < COUNT; each++)                                       \
            {                                                                                                       \
                made[each] += sums[each];                                                                           \
                made[MOST + each] += more[each];                                                                    \
            }                                                                                                       \
        }                                                                                                           \
    }

TILE(12)
TILE(8)
TILE(4)
TILE(1)

typedef void tile(const float *, const lanes *, const long *, long, lanes *);

static long fitting(long left)
{
    return left >= 12 ? 12 : left >= 8 ? 8 : left >= 4 ? 4 : 1;
}

static tile *for_count(long count, int pair)
{
    if (count == 12) return pair ? two_12 : one_12;
    if (count == 8) return pair ? two_8 : one_8;
    if (count == 4) return pair ? two_4 : one_4;
    return pair ? two_1 : one_1;
}

/* (places, after) to (tiles, places, LANES), zeros beyond after. */
static void turn(const float *given, lanes *turned, long places, long after, long tiles)
{
    for (long place = 0; place < places; place++)
        for (long number = 0; number < tiles; number++) {
            const float *from = given + place * after + number * LANES;
            lanes *to = turned + number * places + place;
            const long left = after - number * LANES;
            if (left >= LANES) {
                memcpy(to, from, sizeof(lanes));
            } else {
                *to = (lanes){0};
                memcpy(to, from, left * sizeof(float));
            }
        }
}

static lanes keep(const lanes *made, float *to, long count, long after, long left)
{
    lanes sum = {0};
    for (long each = 0; each < count; each++, to += after) {
        sum += made[each] * made[each];
        if (left >= LANES)
            memcpy(to, &made[each], sizeof(lanes));
        else
            memcpy(to, &made[each], left * sizeof(float));
    }
    return sum;
}

/* Every unit's gradient of a convolution's weights, written out, and its squared length.

   images   (units, rows, high, wide, channels), padded already
   slopes   (units, rows * down * along, after): gradients of what the convolution puts out
   out      (units, kernel_high * kernel_wide * channels, after)
   squares  (units)

   A tile is 16 or 32 outputs by some numbers of a patch. It stays in registers while all places of a unit go by, so that
   patches are read where they are, and a gradient is written once. Squares are added up in doubles, but for the few of a
   tile. Returns 0, or 1 if there is no memory for a unit's slopes. */
int written(const float *images, const float *slopes, float *out, double *squares, int threads, long units, long rows,
            long high, long wide, long channels, long down, long along, long after, long kernel_high, long kernel_wide,
            long step_high, long step_wide, long spread_high, long spread_wide)
{
    const long places = rows * down * along, tiles = (after + LANES - 1) / LANES;
    const long runs = spread_wide == 1 ? kernel_high : kernel_high * kernel_wide;
    const long run = spread_wide == 1 ? kernel_wide * channels : channels;
    int failed = 0;
    long *offsets = malloc(places * sizeof(long));
    if (!offsets) return 1;
    for (long row = 0, place = 0; row < rows; row++)
        for (long i = 0; i < down; i++)
            for (long j = 0; j < along; j++, place++)
                offsets[place] = ((row * high + i * step_high) * wide + j * step_wide) * channels;
#pragma omp parallel num_threads(threads)
    {
        lanes *turned = aligned_alloc(sizeof(lanes), tiles * places * sizeof(lanes));
        if (!turned) {
#pragma omp atomic write
            failed = 1;
        }
#pragma omp for schedule(static)
        for (long unit = 0; unit < units; unit++) {
            if (!turned) continue;
            const float *image = images + unit * rows * high * wide * channels;
            wide_lanes total = {0};
            turn(slopes + unit * places * after, turned, places, after, tiles);
            for (long number = 0; number < runs; number++) {
                const long row = spread_wide == 1 ? number : number / kernel_wide;
                const long column = spread_wide == 1 ? 0 : number % kernel_wide;
                const float *first = image + (row * spread_high * wide + column * spread_wide) * channels;
                float *mine = out + (unit * runs + number) * run * after;
                for (long start = 0, count; start < run; start += count) {
                    count = fitting(run - start);
                    for (long done = 0; done < tiles; done += 2) {
                        const int pair = done + 1 < tiles;
                        lanes made[2 * MOST];
                        for_count(count, pair)(first + start, turned + done * places, offsets, places, made);
                        for (long half = 0; half <= pair; half++) {
                            const long before = (done + half) * LANES;
                            const lanes sum =
                                keep(made + half * MOST, mine + start * after + before, count, after, after - before);
                            total += __builtin_convertvector(sum, wide_lanes);
                        }
                    }
                }
            }
            double square = 0;
            for (int lane = 0; lane < LANES; lane++) square += total[lane];
            squares[unit] = square;
        }
        free(turned);
    }
    free(offsets);
    return failed;
}

/* Sums of a normalisation's scale and shift, over the places of a row.

   values, slopes  (rows, places, channels)
   scales          (rows, channels): sums of slopes times values
   shifts          (rows, channels): sums of slopes */
void normalized(const float *values, const float *slopes, float *scales, float *shifts, int threads, long rows,
                long places, long channels)
{
#pragma omp parallel for schedule(static) num_threads(threads)
    for (long row = 0; row < rows; row++)
        for (long start = 0; start < channels; start += MOST * LANES) {
            const long width = channels - start < MOST * LANES ? channels - start : MOST * LANES;
            float scale[MOST * LANES] = {0}, shift[MOST * LANES] = {0};
            for (long place = 0; place < places; place++) {
                const float *value = values + (row * places + place) * channels + start;
                const float *slope = slopes + (row * places + place) * channels + start;
                for (long each = 0; each < width; each++) {
                    scale[each] += slope[each] * value[each];
                    shift[each] += slope[each];
                }
            }
            memcpy(scales + row * channels + start, scale, width * sizeof(float));
            memcpy(shifts + row * channels + start, shift, width * sizeof(float));
        }
}
