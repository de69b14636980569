//! How much of two vocabularies is mapped, and whether that is enough to draft with.

use foretoken_core::TokenId;

use crate::Tokenizer;

/// The smallest [`MappedShare::of_text`] with which drafting is worth trying: below it, even a draft that always knew what the target is about to
/// say would be wrong about every other token.
pub const MIN_MAPPED_SHARE: f32 = 0.5;

/// Prose, a list, code and data, as chats have them. ASCII, so that no normalization changes it.
const SAMPLE: &str = r#"The two clocks in the hall had never agreed, and nobody remembered which of them was right. "Why don't we ask the station?" she said, looking up from her letter. It's 20 minutes to seven here, but the train that left at 18:45 should already have crossed the river; I've heard nothing, and the rain hasn't stopped since Monday.

Here are three things you could try first:

1. **Check the power supply.** Make sure that the cable is connected and the switch is on.
2. **Restart the application**, then open the settings and choose "Network".
3. If the problem continues, please contact support@example.com with the version (e.g. 2.14.3).

```python
import json
from pathlib import Path

def load_users(path: str, limit: int = 100) -> list[dict]:
    """Return at most `limit` users, sorted by name."""
    users = []
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if record.get("active") and record["id"] not in seen:
            users.append(record)
    return sorted(users, key=lambda user: user["name"])[:limit]
```

```js
const response = await fetch(`/api/items?page=${page + 1}`, { method: "POST" });
if (!response.ok) {
  throw new Error("request failed: " + response.status);
}
```

{"name": "sensor_07", "values": [0.25, -1, 1024], "enabled": true, "parent": null}

In mathematics, the derivative of x^2 is 2x; therefore the slope at x = 3 is 6. The government announced on 14 March that about 37% of all households had applied, which is more than twice as many as in 2019."#;

/// How much of a draft's and its target's vocabularies is mapped one to one.
#[derive(Debug, Clone, PartialEq)]
pub struct MappedShare {
    /// Tokens of text that both vocabularies have.
    pub pairs: u32,
    /// Tokens of text that the draft has; of those with the same bytes one is counted.
    pub draft_tokens: u32,
    /// The same for the target.
    pub target_tokens: u32,
    /// The mapped share, 0 to 1. Both tokenizers write a sample of English prose, code and data; of the tokens of the one that needs
    /// more, those that the other writes as well, at the same place.
    ///
    /// A draft's token is accepted where the target writes the same text in the same token, so this is about what a draft that always knew the text could
    /// have accepted. Shares of whole vocabularies say less: of Gemma 3's 256 thousand tokens of text 18 % are in
    /// SmolLM2's vocabulary, but most of the others are of languages that SmolLM2 does not speak.
    pub of_text: f32,
}

impl MappedShare {
    /// [`MappedShare::of_text`] for a draft whose tokens mean the target's in `to_target`.
    pub(crate) fn in_sample(draft: &Tokenizer, target: &Tokenizer, to_target: &[TokenId]) -> f32 {
        let [draft_places, target_places] = [draft, target].map(places);
        let meaning = |id: TokenId| {
            let at = usize::try_from(id).ok();
            at.and_then(|at| to_target.get(at)).copied()
        };
        let mut target_left = target_places.iter().peekable();
        let same = draft_places.iter().filter(|(begin, end, id)| {
            while target_left.next_if(|place| place.0 < *begin).is_some() {}
            let place = target_left.next_if(|place| place.0 == *begin);
            place.is_some_and(|place| place.1 == *end && Some(place.2) == meaning(*id))
        });
        let longer = draft_places.len().max(target_places.len()).max(1);
        // Below 2^24 both.
        same.count() as f32 / longer as f32
    }

    /// Why not to draft with this pair; `None` where the share reaches [`MIN_MAPPED_SHARE`].
    pub fn too_small(&self) -> Option<String> {
        (self.of_text < MIN_MAPPED_SHARE).then(|| {
            format!(
                "the draft's tokenizer writes {:.1} % of a sample text in tokens that the target's writes too, and drafting needs {:.0} %; use a draft of the target's family",
                self.of_text * 100.0,
                MIN_MAPPED_SHARE * 100.0
            )
        })
    }
}

/// The tokens of the sample, the last first, with the bytes from the sample's end to where they begin and end, backwards. Counted so, a
/// space that a tokenizer puts in front moves nothing.
fn places(tokenizer: &Tokenizer) -> Vec<(usize, usize, TokenId)> {
    let ids = tokenizer.encode(SAMPLE, false).unwrap_or_default();
    let mut behind = 0;
    let place = |id: &TokenId| {
        let begin = behind;
        behind += tokenizer.token_bytes(*id).len();
        (begin, behind, *id)
    };
    ids.iter().rev().map(place).collect()
}
