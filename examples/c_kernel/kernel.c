/* c = a * b for square matrices of N rows; the block sizes are parameters of the task and divide N. */

void multiply(const float *restrict a, const float *restrict b, float *restrict c) {
    // EVOLVE-BLOCK-START
    for (int i = 0; i < N * N; i++)
        c[i] = 0;
    for (int row0 = 0; row0 < N; row0 += BLOCK_ROWS)
        for (int depth0 = 0; depth0 < N; depth0 += BLOCK_DEPTH)
            for (int column0 = 0; column0 < N; column0 += BLOCK_COLUMNS)
                for (int row = row0; row < row0 + BLOCK_ROWS; row++)
                    for (int depth = depth0; depth < depth0 + BLOCK_DEPTH; depth += UNROLL)
                        for (int column = column0; column < column0 + BLOCK_COLUMNS; column++) {
                            float sum = c[row * N + column];
                            for (int k = depth; k < depth + UNROLL; k++)
                                sum += a[row * N + k] * b[k * N + column];
                            c[row * N + column] = sum;
                        }
    // EVOLVE-BLOCK-END
}
