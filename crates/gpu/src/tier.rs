//! Tiers: what a device may use of its features. A tier is a set of swapped files, never a cargo feature.

use std::fmt;

use foretoken_core::OpsError;

/// The features the kernels use. [`Tier::BASE`] is plain WebGPU: f32 everywhere, no subgroups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tier {
    /// Activations are handed round a subgroup (`lib/activations_broadcast.wgsl`).
    pub subgroups: bool,
    /// The KV cache is stored as f16.
    pub f16: bool,
}

impl Tier {
    /// No optional feature.
    pub const BASE: Tier = Tier {
        subgroups: false,
        f16: false,
    };
    /// Every tier, plainest first.
    pub const ALL: [Tier; 4] = [
        Tier::BASE,
        Tier {
            subgroups: false,
            f16: true,
        },
        Tier {
            subgroups: true,
            f16: false,
        },
        Tier {
            subgroups: true,
            f16: true,
        },
    ];

    /// `base`, `f16`, `subgroup`, `subgroup-f16`.
    pub const fn name(self) -> &'static str {
        match (self.subgroups, self.f16) {
            (false, false) => "base",
            (false, true) => "f16",
            (true, false) => "subgroup",
            (true, true) => "subgroup-f16",
        }
    }

    /// The tier of that name.
    pub fn parse(name: &str) -> Result<Tier, OpsError> {
        Tier::ALL
            .into_iter()
            .find(|tier| tier.name() == name)
            .ok_or_else(|| OpsError::Unavailable {
                reason: format!("no tier {name:?}; there are base, f16, subgroup, subgroup-f16"),
            })
    }

    /// Whether a device of tier `self` can run `other`.
    pub const fn includes(self, other: Tier) -> bool {
        (self.subgroups || !other.subgroups) && (self.f16 || !other.f16)
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
