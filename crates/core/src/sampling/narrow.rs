//! min-p, top-k, top-p: which tokens of a processed row may be chosen.

use crate::Sampling;

/// Masks what the three leave out, each over what the one before left:
/// - min-p keeps `p ≥ min_p · p_max`;
/// - top-k keeps every token not smaller than the k-th largest (ties stay);
/// - top-p keeps a token while the mass of those before it, larger first and lower ids first among equals, is below p.
pub(crate) fn narrow(logits: &mut [f32], sampling: &Sampling, masked: f32) {
    if !sampling.narrows() {
        return;
    }
    let largest = logits.iter().copied().fold(masked, f32::max);
    if sampling.min_p > 0.0 {
        let least = largest + sampling.min_p.ln();
        mask_below(logits, least, masked);
    }
    let k = sampling.top_k as usize;
    if k > 0 && k < logits.len() {
        let mut sorted = logits.to_vec();
        sorted.sort_unstable_by(|a, b| b.total_cmp(a));
        mask_below(logits, sorted[k - 1], masked);
    }
    if sampling.top_p < 1.0 {
        let mut order: Vec<usize> = (0..logits.len()).filter(|i| logits[*i] > masked).collect();
        order.sort_by(|a, b| logits[*b].total_cmp(&logits[*a]));
        let mass = |i: usize| f64::from((logits[i] - largest).exp());
        let limit = f64::from(sampling.top_p) * order.iter().map(|i| mass(*i)).sum::<f64>();
        let mut before = 0.0;
        let mut keep = order.len();
        for (rank, &i) in order.iter().enumerate() {
            if before >= limit && rank > 0 {
                keep = rank;
                break;
            }
            before += mass(i);
        }
        for &i in &order[keep..] {
            logits[i] = masked;
        }
    }
}

fn mask_below(logits: &mut [f32], least: f32, masked: f32) {
    for logit in logits.iter_mut().filter(|logit| **logit < least) {
        *logit = masked;
    }
}
