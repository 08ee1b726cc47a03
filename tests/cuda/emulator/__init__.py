"""Executes the CUDA build without a GPU.

Warp lets NVRTC compile kernels to PTX, which needs no GPU. `ptx` reads that text, `translate` makes C of it (with
`opcodes` and `operands`), `build` compiles it, and `device.c` runs the lanes of a block as fibers and watches what they
do. `driver` stands in for the CUDA driver below Warp: a device that Warp, Newton and SAP Warp take for a GPU.

Not as on a GPU: time; caches; the last bit where ptxas would fuse a product and a sum, and of approximate functions.
"""
