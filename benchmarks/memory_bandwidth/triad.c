/* Copy and triad as STREAM defines them (McCalpin 1995), with its check of the result.
 *
 * Arguments: elements of an array, measurements after one that does not count. Prints a line "copy" or "triad" with the
 * seconds of each measurement; ends with 1 when the arrays do not hold what they should.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <omp.h>

static const double SCALAR = 0.42;

static double *array(size_t count, double value) {
    double *values = aligned_alloc(64, (count * sizeof(double) + 63) / 64 * 64);
    if (values == NULL) {
        fprintf(stderr, "no memory for an array of %zu elements\n", count);
        exit(3);
    }
    /* by the threads that use it, so that each finds its part in its own node's memory */
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < count; i++) values[i] = value;
    return values;
}

static double copy(double *restrict c, const double *restrict a, size_t count) {
    double started = omp_get_wtime();
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < count; i++) c[i] = a[i];
    return omp_get_wtime() - started;
}

static double triad(double *restrict a, const double *restrict b, const double *restrict c, size_t count) {
    double started = omp_get_wtime();
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < count; i++) a[i] = b[i] + SCALAR * c[i];
    return omp_get_wtime() - started;
}

static int holds(const char *name, const double *values, size_t count, double expected) {
    double error = 0;
#pragma omp parallel for schedule(static) reduction(+ : error)
    for (size_t i = 0; i < count; i++) error += fabs(values[i] - expected);
    if (!(error / (double)count <= 1e-13 * fabs(expected))) {
        fprintf(stderr, "array %s is wrong: mean error %g of %g\n", name, error / (double)count, expected);
        return 0;
    }
    return 1;
}

static void print(const char *name, const double *seconds, int measurements) {
    printf("%s", name);
    for (int k = 1; k <= measurements; k++) printf(" %.9f", seconds[k]);
    printf("\n");
}

int main(int argc, char **argv) {
    if (argc != 3 || atoll(argv[1]) < 1 || atoi(argv[2]) < 1) {
        fprintf(stderr, "usage: %s ELEMENTS MEASUREMENTS\n", argv[0]);
        return 2;
    }
    size_t count = (size_t)atoll(argv[1]);
    int measurements = atoi(argv[2]);
    double *a = array(count, 1.0), *b = array(count, 2.0), *c = array(count, 0.0);
    double *copies = calloc(2 * ((size_t)measurements + 1), sizeof(double)), *triads = copies + measurements + 1;
    double expected_a = 1.0, expected_b = 2.0, expected_c = 0.0;
    if (copies == NULL) return 3;
    for (int k = 0; k <= measurements; k++) {
        copies[k] = copy(c, a, count);
        triads[k] = triad(a, b, c, count);
        expected_c = expected_a;
        expected_a = expected_b + SCALAR * expected_c;
    }
    if (!holds("a", a, count, expected_a) || !holds("b", b, count, expected_b) || !holds("c", c, count, expected_c))
        return 1;
    print("copy", copies, measurements);
    print("triad", triads, measurements);
    return 0;
}
