/* The general oracle in plain C and OpenMP with a polynomial exp: the floor that our kernel is measured against.
   Built without -ffast-math: linked into a shared library, that would switch the whole process to flush-to-zero. */
#include <math.h>
#include <stdint.h>
#include <string.h>

static inline double exp_poly(double x) {
    double shifted = x * 1.4426950408889634 + 6755399441055744.0;
    double whole = shifted - 6755399441055744.0;
    double r = (x - whole * 0.6931471803691238) - whole * 1.9082149292705877e-10;
    double p = 2.5110037605963777e-08;
    p = p * r + 2.763263963904103e-07;
    p = p * r + 2.755724091857897e-06;
    p = p * r + 2.4801485482328494e-05;
    p = p * r + 0.00019841269890047113;
    p = p * r + 0.0013888888952314775;
    p = p * r + 0.008333333333319601;
    p = p * r + 0.0416666666664881;
    p = p * r + 0.1666666666666668;
    p = p * r + 0.5000000000000019;
    p = p * r + 1.0;
    p = p * r + 1.0;
    int64_t bits;
    memcpy(&bits, &shifted, 8);
    bits = (int64_t)((uint64_t)(bits + 1023) << 52);
    double scale;
    memcpy(&scale, &bits, 8);
    return x >= -708.0 ? p * scale : 0.0;
}

/* x (b, n), support_t (d, n), atoms (b*m, d), weights (b*m), all divided by reg as in barymesh; fills value (b), p (b, n). */
void oracle(int64_t threads, int64_t b, int64_t n, int64_t m, int64_t d, const double *x, const double *support_t,
            const double *atoms, const double *weights, double *value, double *p) {
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < b; i++) {
        double terms[n];
        double *restrict out = p + i * n;
        const double *restrict row = x + i * n;
        double total_value = 0.0;
        for (int64_t j = 0; j < n; j++) out[j] = 0.0;
        for (int64_t k = i * m; k < (i + 1) * m; k++) {
            double top = -1e300, total = 0.0;
            for (int64_t j = 0; j < n; j++) terms[j] = row[j];
            for (int64_t a = 0; a < d; a++) {
                double y = atoms[k * d + a];
                const double *restrict z = support_t + a * n;
                for (int64_t j = 0; j < n; j++) terms[j] -= (z[j] - y) * (z[j] - y);
            }
#pragma omp simd reduction(max : top)
            for (int64_t j = 0; j < n; j++) top = terms[j] > top ? terms[j] : top;
#pragma omp simd reduction(+ : total)
            for (int64_t j = 0; j < n; j++) {
                terms[j] = exp_poly(terms[j] - top);
                total += terms[j];
            }
            double factor = weights[k] / total;
            for (int64_t j = 0; j < n; j++) out[j] += factor * terms[j];
            total_value += weights[k] * (top + log(total));
        }
        value[i] = total_value;
    }
}

/* x and out (threads, n): every thread goes over its own row again and again, which stays in the fastest cache. */
void exps(int64_t threads, int64_t sweeps, int64_t n, const double *x, double *out) {
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t t = 0; t < threads; t++) {
        const double *restrict from = x + t * n;
        double *restrict to = out + t * n;
        for (int64_t s = 0; s < sweeps; s++) {
#pragma omp simd
            for (int64_t j = 0; j < n; j++) to[j] = exp_poly(from[j]);
            __asm__ volatile("" ::: "memory"); /* the next sweep is not known to do the same again */
        }
    }
}
