/* Two kernels of the NAS Parallel Benchmarks (Bailey et al. 1991, RNR-94-007), written from their
 * description: IS, which ranks integers and sends each of them to another rank, and FT, which solves
 * a differential equation by Fourier transforms and transposes all data. An operation is an
 * iteration. Each is verified by the figures that the benchmarks publish for their classes. */
#include "mpi_bench.h"
#include <complex.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { IS_ITERATIONS = 10, IS_TESTS = 5, FT_ITERATIONS = 6, FT_SAMPLES = 1024 };

static const uint64_t MULTIPLIER = 1220703125; /* 5^13 */
static const uint64_t SEED = 314159265;
static const uint64_t MASK = (1ull << 46) - 1;
static const double PI = 3.141592653589793;

/* The benchmarks' random numbers: x' = 5^13 x mod 2^46. */
static double next_random(uint64_t *x)
{
    *x = (*x * MULTIPLIER) & MASK;
    return (double)*x * 0x1p-46;
}

/* The seed after `steps` numbers. */
static uint64_t seed_after(uint64_t steps)
{
    uint64_t power = MULTIPLIER, seed = SEED;
    for (; steps > 0; steps >>= 1) {
        if (steps & 1)
            seed = (seed * power) & MASK;
        power = (power * power) & MASK;
    }
    return seed;
}

static void divide_evenly(int64_t count, const char *what)
{
    if (count % ranks != 0)
        fail(what, ranks);
}

/* IS. */

struct sort_class {
    int64_t keys, key_max;
    /* Keys at these places have these ranks, which move by one with each iteration: the first
     * `rising` upwards, the others downwards, each from its own iteration on. */
    int64_t places[IS_TESTS], ranked[IS_TESTS];
    int64_t rising, up_from, down_from;
};

static const struct sort_class sort_classes[] = {
    { 1 << 16, 1 << 11, { 48427, 17148, 23627, 62548, 4431 },
      { 0, 18, 346, 64917, 65463 }, 3, 0, 0 },
    { 1 << 20, 1 << 16, { 357773, 934767, 875723, 898999, 404505 },
      { 1249, 11698, 1039987, 1043896, 1048018 }, 2, 2, 0 },
    { 1 << 23, 1 << 19, { 2112377, 662041, 5336171, 3642833, 4250760 },
      { 104, 17523, 123928, 8288932, 8388264 }, 3, 1, 1 },
};

struct sort {
    const struct sort_class *class;
    int32_t *keys;      /* of this rank */
    int32_t *begin;     /* the first of them, before iterations change them */
    int32_t *sorted;    /* by their receivers */
    int32_t *received;
    int32_t *counts;    /* of the keys of each value of this rank's range */
    int32_t tested[IS_TESTS];
    int64_t own, received_max, range;
    int64_t sequence;
    int64_t below;      /* keys that other ranks have of lower ranges */
    int *send_counts, *send_places, *receive_counts, *receive_places;
};

enum { IS_CHANGED = 2 * IS_ITERATIONS + 1 };

static int64_t iteration_of(int64_t sequence)
{
    return 1 + sequence % IS_ITERATIONS;
}

/* Each iteration changes two keys, so that no work can be saved. */
static void change_keys(struct sort *s, int64_t iteration)
{
    if (rank != 0)
        return;
    if (iteration == 1)
        memcpy(s->keys, s->begin, IS_CHANGED * sizeof *s->keys);
    s->keys[iteration] = (int32_t)iteration;
    s->keys[iteration + IS_ITERATIONS] = (int32_t)(s->class->key_max - iteration);
}

/* Every rank tells what it has at the places that are verified. */
static void look_at_tested(struct sort *s)
{
    int32_t own[IS_TESTS] = { 0 };
    for (int i = 0; i < IS_TESTS; i++) {
        int64_t at = s->class->places[i] - rank * s->own;
        own[i] = at >= 0 && at < s->own ? s->keys[at] : 0;
    }
    MPI_Allreduce(own, s->tested, IS_TESTS, MPI_INT32_T, MPI_SUM, MPI_COMM_WORLD);
}

static void places_of(const int *counts, int *places)
{
    for (int i = 0, sum = 0; i < ranks; i++) {
        places[i] = sum;
        sum += counts[i];
    }
}

/* Ranges of equal width: rank r ranks the keys from r * range on. */
static void send_keys(struct sort *s)
{
    memset(s->send_counts, 0, (size_t)ranks * sizeof(int));
    for (int64_t i = 0; i < s->own; i++)
        s->send_counts[s->keys[i] / s->range]++;
    places_of(s->send_counts, s->send_places);
    for (int64_t i = 0; i < s->own; i++)
        s->sorted[s->send_places[s->keys[i] / s->range]++] = s->keys[i];
    places_of(s->send_counts, s->send_places);
    MPI_Alltoall(s->send_counts, 1, MPI_INT, s->receive_counts, 1, MPI_INT, MPI_COMM_WORLD);
    places_of(s->receive_counts, s->receive_places);
    MPI_Alltoallv(s->sorted, s->send_counts, s->send_places, MPI_INT32_T, s->received,
                  s->receive_counts, s->receive_places, MPI_INT32_T, MPI_COMM_WORLD);
}

static void count_keys(struct sort *s)
{
    int64_t count = s->receive_places[ranks - 1] + s->receive_counts[ranks - 1];
    memset(s->counts, 0, (size_t)s->range * sizeof *s->counts);
    for (int64_t i = 0; i < count; i++)
        s->counts[s->received[i] - rank * s->range]++;
    s->below = 0;
    MPI_Exscan(&count, &s->below, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    s->below = rank == 0 ? 0 : s->below;
}

static void verify_ranks(struct sort *s, int64_t iteration)
{
    for (int i = 0; i < IS_TESTS; i++) {
        int64_t at = s->tested[i] - rank * s->range, found = s->below;
        if (at < 0 || at >= s->range)
            continue;
        for (int64_t value = 0; value < at; value++)
            found += s->counts[value];
        int64_t moved = i < s->class->rising ? iteration - s->class->up_from
                                             : s->class->down_from - iteration;
        checks.validated++;
        checks.wrong += found != s->class->ranked[i] + moved;
    }
}

static void sort_iterations(void *state, int64_t count, int64_t *times_ns)
{
    struct sort *s = state;
    for (int64_t i = 0; i < count; i++, s->sequence++) {
        int64_t iteration = iteration_of(s->sequence);
        change_keys(s, iteration);
        look_at_tested(s);
        MPI_Barrier(MPI_COMM_WORLD);
        int64_t start = now_ns();
        send_keys(s);
        count_keys(s);
        times_ns[i] = now_ns() - start;
        verify_ranks(s, iteration);
    }
}

static void make_keys(struct sort *s)
{
    uint64_t seed = seed_after(4 * (uint64_t)(rank * s->own));
    double quarter = (double)(s->class->key_max / 4);
    for (int64_t i = 0; i < s->own; i++) {
        double sum = 0;
        for (int part = 0; part < 4; part++)
            sum += next_random(&seed);
        s->keys[i] = (int32_t)(quarter * sum);
    }
    memcpy(s->begin, s->keys, IS_CHANGED * sizeof *s->keys);
}

void measure_integer_sort(const struct measurement *m)
{
    const struct sort_class *class = sort_classes;
    size_t classes = sizeof sort_classes / sizeof *sort_classes;
    while (class < sort_classes + classes && class->keys * (int64_t)sizeof(int32_t) != m->bytes)
        class++;
    if (class == sort_classes + classes)
        fail("nas-is has no class of this many bytes:", m->bytes);
    divide_evenly(class->key_max, "nas-is: its range of keys cannot be divided by the ranks:");
    struct sort s = { .class = class, .own = class->keys / ranks, .range = class->key_max / ranks };
    int64_t bytes = s.own * (int64_t)sizeof(int32_t);
    int64_t places = ranks * (int64_t)sizeof(int);
    s.keys = allocate(bytes);
    s.begin = allocate(bytes);
    s.sorted = allocate(bytes);
    s.received = allocate(m->bytes);
    s.counts = allocate(s.range * (int64_t)sizeof *s.counts);
    int **lists[] = { &s.send_counts, &s.send_places, &s.receive_counts, &s.receive_places };
    for (int i = 0; i < 4; i++)
        *lists[i] = allocate(places);
    make_keys(&s);
    print_slowest(measure(m, sort_iterations, &s));
    void *all[] = { s.keys, s.begin, s.sorted, s.received, s.counts, s.send_counts, s.send_places,
                    s.receive_counts, s.receive_places };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

/* FT: the sides x and y of a slab of planes z in space; all z of a part of x after a transform. */

struct fourier_class {
    int64_t nx, ny, nz;
    double complex sums[FT_ITERATIONS];
};

static const struct fourier_class fourier_classes[] = {
    { 64, 64, 64,
      { 5.546087004964e+02 + 4.845363331978e+02 * I, 5.546385409189e+02 + 4.865304269511e+02 * I,
        5.546148406171e+02 + 4.883910722336e+02 * I, 5.545423607415e+02 + 4.901273169046e+02 * I,
        5.544255039624e+02 + 4.917475857993e+02 * I,
        5.542683411902e+02 + 4.932597244941e+02 * I } },
    { 128, 128, 32,
      { 5.673612178944e+02 + 5.293246849175e+02 * I, 5.631436885271e+02 + 5.282149986629e+02 * I,
        5.594024089970e+02 + 5.270996558037e+02 * I, 5.560698047020e+02 + 5.260027904925e+02 * I,
        5.530898991250e+02 + 5.249400845633e+02 * I,
        5.504159734538e+02 + 5.239212247086e+02 * I } },
};

struct fourier {
    const struct fourier_class *class;
    int64_t slab, strip;          /* planes z in space, columns x after a transform, of this rank */
    double complex *begin;        /* the transform of the beginning: [x of the strip][y][z] */
    double complex *frequencies;  /* what it has become */
    double *decay;                /* what an iteration does to it */
    double complex *space;        /* [z of the slab][y][x] */
    double complex *out, *in;     /* packed for the transposition */
    double complex *roots, *line;
    int64_t roots_count;
    int64_t sequence;
};

/* Transforms `count` values that are `stride` apart; `sign` 1 or -1; not scaled (radix 2). */
static void transform(struct fourier *f, double complex *data, int64_t count, int64_t stride,
                      int sign)
{
    double complex *from = f->line, *to = f->line + count;
    for (int64_t i = 0; i < count; i++)
        from[i] = data[i * stride];
    for (int64_t half = count / 2, width = 1; half >= 1; half /= 2, width *= 2) {
        for (int64_t j = 0; j < half; j++) {
            double complex root = f->roots[j * width * (f->roots_count / count)];
            root = sign > 0 ? root : conj(root);
            for (int64_t k = 0; k < width; k++) {
                double complex a = from[j * width + k], b = from[(j + half) * width + k];
                to[2 * j * width + k] = a + b;
                to[(2 * j + 1) * width + k] = (a - b) * root;
            }
        }
        double complex *other = from;
        from = to;
        to = other;
    }
    for (int64_t i = 0; i < count; i++)
        data[i * stride] = from[i];
}

static void transform_planes(struct fourier *f, int sign)
{
    int64_t nx = f->class->nx, ny = f->class->ny;
    for (int64_t z = 0; z < f->slab; z++) {
        double complex *plane = f->space + z * nx * ny;
        for (int64_t y = 0; y < ny; y++)
            transform(f, plane + y * nx, nx, 1, sign);
        for (int64_t x = 0; x < nx; x++)
            transform(f, plane + x, ny, nx, sign);
    }
}

static void transform_columns(struct fourier *f, double complex *strips, int sign)
{
    int64_t columns = f->strip * f->class->ny;
    for (int64_t i = 0; i < columns; i++)
        transform(f, strips + i * f->class->nz, f->class->nz, 1, sign);
}

/* Doubles that each rank sends to each. */
static int block(const struct fourier *f)
{
    return (int)(2 * f->slab * f->strip * f->class->ny);
}

static void exchange_blocks(struct fourier *f)
{
    MPI_Alltoall(f->out, block(f), MPI_DOUBLE, f->in, block(f), MPI_DOUBLE, MPI_COMM_WORLD);
}

/* From the slabs to `strips`, or back. */
static void to_strips(struct fourier *f, double complex *strips)
{
    int64_t nx = f->class->nx, ny = f->class->ny, nz = f->class->nz;
    double complex *next = f->out;
    for (int64_t x = 0; x < nx; x++)
        for (int64_t y = 0; y < ny; y++)
            for (int64_t z = 0; z < f->slab; z++)
                *next++ = f->space[(z * ny + y) * nx + x];
    exchange_blocks(f);
    const double complex *from = f->in;
    for (int r = 0; r < ranks; r++)
        for (int64_t column = 0; column < f->strip * ny; column++, from += f->slab)
            memcpy(strips + column * nz + r * f->slab, from, (size_t)f->slab * sizeof *from);
}

static void to_slabs(struct fourier *f, const double complex *strips)
{
    int64_t nx = f->class->nx, ny = f->class->ny, nz = f->class->nz;
    double complex *next = f->out;
    for (int r = 0; r < ranks; r++)
        for (int64_t column = 0; column < f->strip * ny; column++, next += f->slab)
            memcpy(next, strips + column * nz + r * f->slab, (size_t)f->slab * sizeof *next);
    exchange_blocks(f);
    const double complex *from = f->in;
    for (int64_t x = 0; x < nx; x++)
        for (int64_t y = 0; y < ny; y++)
            for (int64_t z = 0; z < f->slab; z++)
                f->space[(z * ny + y) * nx + x] = *from++;
}

/* The frequency of a place: the upper half is negative. */
static double frequency(int64_t at, int64_t count)
{
    return (double)((at + count / 2) % count - count / 2);
}

static void prepare_decay(struct fourier *f)
{
    int64_t nx = f->class->nx, ny = f->class->ny, nz = f->class->nz;
    double *next = f->decay;
    for (int64_t i = 0; i < f->strip; i++)
        for (int64_t y = 0; y < ny; y++)
            for (int64_t z = 0; z < nz; z++) {
                double kx = frequency(rank * f->strip + i, nx), ky = frequency(y, ny);
                double kz = frequency(z, nz);
                *next++ = exp(-4e-6 * PI * PI * (kx * kx + ky * ky + kz * kz));
            }
}

/* Random numbers in space, and their transform. */
static void begin(struct fourier *f)
{
    int64_t slab_values = f->slab * f->class->ny * f->class->nx;
    uint64_t seed = seed_after(2 * (uint64_t)(rank * slab_values));
    for (int64_t i = 0; i < slab_values; i++) {
        double real = next_random(&seed);
        f->space[i] = real + next_random(&seed) * I;
    }
    transform_planes(f, 1);
    to_strips(f, f->begin);
    transform_columns(f, f->begin, 1);
}

/* One step in time, seen in space. */
static void step(struct fourier *f, double complex *strips)
{
    int64_t values = f->strip * f->class->ny * f->class->nz;
    for (int64_t i = 0; i < values; i++) {
        f->frequencies[i] *= f->decay[i];
        strips[i] = f->frequencies[i];
    }
    transform_columns(f, strips, -1);
    to_slabs(f, strips);
    transform_planes(f, -1);
}

static void verify_sum(struct fourier *f, int64_t iteration)
{
    int64_t nx = f->class->nx, ny = f->class->ny, nz = f->class->nz;
    double own[2] = { 0, 0 }, sum[2];
    for (int64_t i = 1; i <= FT_SAMPLES; i++) {
        int64_t x = i % nx, y = 3 * i % ny, z = 5 * i % nz - rank * f->slab;
        if (z < 0 || z >= f->slab)
            continue;
        double complex value = f->space[(z * ny + y) * nx + x];
        own[0] += creal(value);
        own[1] += cimag(value);
    }
    MPI_Allreduce(own, sum, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    double complex found = (sum[0] + sum[1] * I) / (double)(nx * ny * nz);
    double complex expected = f->class->sums[iteration];
    checks.validated++;
    checks.wrong += !(cabs((found - expected) / expected) < 1e-12);
}

static void fourier_iterations(void *state, int64_t count, int64_t *times_ns)
{
    struct fourier *f = state;
    size_t bytes = (size_t)(f->strip * f->class->ny * f->class->nz) * sizeof *f->begin;
    double complex *strips = allocate((int64_t)bytes);
    for (int64_t i = 0; i < count; i++, f->sequence++) {
        int64_t iteration = f->sequence % FT_ITERATIONS;
        if (iteration == 0)
            memcpy(f->frequencies, f->begin, bytes);
        MPI_Barrier(MPI_COMM_WORLD);
        int64_t start = now_ns();
        step(f, strips);
        times_ns[i] = now_ns() - start;
        verify_sum(f, iteration);
    }
    free(strips);
}

void measure_fourier(const struct measurement *m)
{
    const struct fourier_class *class = fourier_classes;
    size_t classes = sizeof fourier_classes / sizeof *fourier_classes;
    int64_t value_bytes = (int64_t)sizeof(double complex);
    while (class < fourier_classes + classes &&
           class->nx * class->ny * class->nz * value_bytes != m->bytes)
        class++;
    if (class == fourier_classes + classes)
        fail("nas-ft has no class of this many bytes:", m->bytes);
    divide_evenly(class->nx, "nas-ft: its side x cannot be divided by the ranks:");
    divide_evenly(class->nz, "nas-ft: its side z cannot be divided by the ranks:");
    struct fourier f = { .class = class, .slab = class->nz / ranks, .strip = class->nx / ranks };
    int64_t bytes = m->bytes / ranks;
    double complex **all[] = { &f.begin, &f.frequencies, &f.space, &f.out, &f.in };
    for (int i = 0; i < 5; i++)
        *all[i] = allocate(bytes);
    f.decay = allocate(bytes / 2);
    f.roots_count = class->nx > class->nz ? class->nx : class->nz;
    f.roots = allocate(f.roots_count * value_bytes);
    f.line = allocate(2 * f.roots_count * value_bytes);
    for (int64_t i = 0; i < f.roots_count; i++)
        f.roots[i] = cexp(2 * PI * I * (double)i / (double)f.roots_count);
    prepare_decay(&f);
    begin(&f);
    print_slowest(measure(m, fourier_iterations, &f));
    for (int i = 0; i < 5; i++)
        free(*all[i]);
    free(f.decay);
    free(f.roots);
    free(f.line);
}
