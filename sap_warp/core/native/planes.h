// The planes of a hull's faces, eight at a time: heights of a point above them, and those that matter.
#pragma once

namespace sap {

// Heights of a point above planes, x y z offset by plane; returns the number of the highest one, the first of equals.
// Reads and writes up to seven entries behind the last plane.
SAP_CALL inline int plane_heights(const float* x, const float* y, const float* z, const float* offset, int count,
    float px, float py, float pz, float* heights) {
    typedef Vec<float> V;
    typedef int W __attribute__((vector_size(32)));
    V highest = V{} - 3.0e38f;
    W top = {};
    W k = {0, 1, 2, 3, 4, 5, 6, 7};
    SAP_ROLLED
    for (int i = 0; i < count; i += 8, k += 8) {
        const V h = px * load(x + i) + py * load(y + i) + pz * load(z + i) - load(offset + i);
        store(heights + i, h);
        const W higher = (h > highest) & (k < count);
        highest = higher ? h : highest;
        top = higher ? k : top;
    }
    int found = top[0];
    float best = highest[0];
    SAP_UNROLL
    for (int l = 1; l < 8; ++l) {
        const bool better = highest[l] > best || (highest[l] == best && top[l] < found);
        found = better ? top[l] : found;
        best = better ? highest[l] : best;
    }
    return found;
}

// Lists the planes with heights, stretched if they are positive, above a limit; returns how many.
// Reads up to seven entries behind the last plane.
SAP_CALL inline int steep_planes(const float* heights, const float* stretch, int count, float limit, int* listed) {
    typedef Vec<float> V;
    typedef int W __attribute__((vector_size(32)));
    int found = 0;
    SAP_ROLLED
    for (int i = 0; i < count; i += 8) {
        const V h = load(heights + i);
        const W above = (h > 0.0f ? h * load(stretch + i) : h) > limit;
        if (__builtin_reduce_or(above) == 0) continue;
        SAP_UNROLL
        for (int l = 0; l < 8; ++l) {
            listed[found] = i + l;
            found += above[l] != 0 && i + l < count;
        }
    }
    return found;
}

}  // namespace sap
