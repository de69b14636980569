//! One file an op, named as in `docs/KERNELS.md`. Each computes on plain slices.

pub(crate) mod attention;
pub(crate) mod attention_rope;
pub(crate) mod choose;
pub(crate) mod embed;
pub(crate) mod matmul;
pub(crate) mod matmul_glu;
pub(crate) mod qk_norm;
pub(crate) mod rms_norm;
