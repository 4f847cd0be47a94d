/* Reads pairs of matrices of bytes from standard input and writes each product, as floats, until the input ends. */

#include <stdio.h>

void multiply(const float *restrict a, const float *restrict b, float *restrict c);

static unsigned char input[2 * N * N];
static float a[N * N], b[N * N], c[N * N];

int main(void) {
    while (fread(input, sizeof input, 1, stdin) == 1) {
        for (int i = 0; i < N * N; i++) {
            a[i] = input[i];
            b[i] = input[N * N + i];
        }
        multiply(a, b, c);
        if (fwrite(c, sizeof c, 1, stdout) != 1 || fflush(stdout) != 0)
            return 1;
    }
    return 0;
}
