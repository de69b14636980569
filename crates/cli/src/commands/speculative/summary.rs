//! What the entries of several methods say together: a summary a method and kind of prompt.

use serde_json::{Value, json};

use super::super::bench::median;
use super::{number, shown_id};

/// The kind that all prompts are of.
const ALL: &str = "all";

/// Entries by the kind of their prompt, what an id has before its number: in order; all of them stand last.
pub fn by_kind<'a>(entries: &[&'a Value]) -> Vec<(String, Vec<&'a Value>)> {
    let mut kinds: Vec<(String, Vec<&Value>)> = Vec::new();
    for &entry in entries {
        let id = shown_id(&entry["prompt"]);
        let Some((kind, _)) = id.rsplit_once('-') else {
            continue;
        };
        match kinds.iter_mut().find(|(name, _)| name == kind) {
            Some((_, of_kind)) => of_kind.push(entry),
            None => kinds.push((kind.to_owned(), vec![entry])),
        }
    }
    kinds.push((ALL.to_owned(), entries.to_vec()));
    kinds
}

/// A summary for each method, in the order of `methods`, and each kind.
pub fn summarize(methods: &[&str], entries: &[Value]) -> Vec<Value> {
    let of_method = |method: &str| -> Vec<&Value> {
        let by_it = |entry: &&Value| entry["method"] == method;
        entries.iter().filter(by_it).collect()
    };
    let kinds = |method: &&str| {
        let method = (*method).to_owned();
        by_kind(&of_method(&method))
            .into_iter()
            .map(move |(kind, entries)| summary(&method, &kind, &entries))
    };
    methods.iter().flat_map(kinds).collect()
}

fn summary(method: &str, kind: &str, entries: &[&Value]) -> Value {
    let figures = |key: &str| -> Vec<f64> {
        let figures = entries.iter().filter_map(|entry| entry[key].as_f64());
        figures.collect()
    };
    let sum = |key: &str| -> u64 {
        let counts = entries
            .iter()
            .filter_map(|entry| entry["speculative_decoding"][key].as_u64());
        counts.sum()
    };
    let (steps, drafted) = (sum("num_spec_steps"), sum("num_draft_tokens"));
    let accepted = sum("num_accepted_draft_tokens");
    let histogram = histogram(entries);
    let equal = entries
        .iter()
        .filter(|entry| entry["outputs_equal"] == true);
    let (speedups, predicted) = (figures("speedup"), figures("predicted_speedup"));
    let mut summary = json!({
        "method": method,
        "kind": kind,
        "prompts": entries.len(),
        "outputs_equal": equal.count(),
        "speedups": speedups.len(),
    });
    if !speedups.is_empty() {
        summary["speedup"] = median(speedups.into_iter()).into();
    }
    if !predicted.is_empty() {
        summary["predicted_speedup"] = median(predicted.into_iter()).into();
    }
    // As in a response: what one says without steps or drafts, all say.
    let ratio = |part: u64, whole: u64| match whole {
        0 => 0.0,
        _ => part as f64 / whole as f64,
    };
    summary["mean_acceptance_length"] = (1.0 + ratio(accepted, steps)).into();
    summary["draft_acceptance_rate"] = ratio(accepted, drafted).into();
    let at_least = |count: usize| histogram[count..].iter().sum();
    let positions = 1..histogram.len();
    summary["acceptance_per_pos"] = positions
        .map(|count| ratio(at_least(count), steps))
        .collect::<Vec<_>>()
        .into();
    summary["acceptance_histogram"] = histogram.into();
    summary["num_spec_steps"] = steps.into();
    summary["num_draft_tokens"] = drafted.into();
    summary["num_accepted_draft_tokens"] = accepted.into();
    summary
}

/// Index j: steps of all entries that accepted exactly j drafts.
fn histogram(entries: &[&Value]) -> Vec<u64> {
    let mut sums = Vec::new();
    for entry in entries {
        let histogram = entry["speculative_decoding"]["acceptance_histogram"].as_array();
        for (j, count) in histogram.into_iter().flatten().enumerate() {
            if j == sums.len() {
                sums.push(0);
            }
            sums[j] += count.as_u64().unwrap_or_default();
        }
    }
    sums
}

/// The summaries for people.
pub fn describe(summaries: &[Value]) -> String {
    let mut text = format!(
        "{:<12} {:<12} {:>8} {:>9} {:>13} {:>9} {:>9} {:>9}\n",
        "method", "kind", "speed-up", "predicted", "tokens a step", "accepted", "compared", "equal"
    );
    for summary in summaries {
        let word = |key: &str| summary[key].as_str().unwrap_or_default();
        let of_prompts = |key: &str| format!("{}/{}", summary[key], summary["prompts"]);
        let rate = summary["draft_acceptance_rate"].as_f64();
        text += &format!(
            "{:<12} {:<12} {:>8} {:>9} {:>13} {:>7.0} % {:>9} {:>9}\n",
            word("method"),
            word("kind"),
            number(&summary["speedup"]),
            number(&summary["predicted_speedup"]),
            number(&summary["mean_acceptance_length"]),
            100.0 * rate.unwrap_or_default(),
            of_prompts("speedups"),
            of_prompts("outputs_equal"),
        );
    }
    text += "\naccepted by position, and steps that accepted 0, 1, … drafts\n";
    for summary in summaries.iter().filter(|summary| summary["kind"] == ALL) {
        let list = |key: &str, shown: fn(&Value) -> String| -> String {
            let values = summary[key].as_array().into_iter().flatten();
            values.map(shown).collect::<Vec<_>>().join(" ")
        };
        text += &format!(
            "{:<12} {};  {}\n",
            summary["method"].as_str().unwrap_or_default(),
            list("acceptance_per_pos", number),
            list("acceptance_histogram", Value::to_string),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(method: &str, id: &str, speedup: Option<f64>, histogram: &[u64]) -> Value {
        let steps: u64 = histogram.iter().sum();
        let accepted: u64 = histogram.iter().zip(0..).map(|(count, j)| count * j).sum();
        let mut entry = json!({
            "prompt": id, "method": method, "outputs_equal": true,
            "speculative_decoding": {
                "acceptance_histogram": histogram, "num_spec_steps": steps,
                "num_draft_tokens": 2 * steps, "num_accepted_draft_tokens": accepted,
            },
        });
        if let Some(speedup) = speedup {
            entry["speedup"] = speedup.into();
            entry["predicted_speedup"] = (2.0 * speedup).into();
        }
        entry
    }

    #[test]
    fn each_method_and_kind_has_its_own_sums_and_medians() {
        let mut differs = entry("suffix", "edit-2", None, &[1, 0, 0]);
        differs["outputs_equal"] = false.into();
        let entries = [
            entry("ngram", "edit-1", Some(3.0), &[1, 1, 2]),
            entry("suffix", "edit-1", Some(9.0), &[0, 0, 3]),
            entry("ngram", "prose-1", None, &[0, 0, 0]),
            entry("ngram", "edit-2", Some(1.0), &[3, 0, 1]),
            differs,
            entry("ngram", "edit-3", Some(2.0), &[0, 2, 0]),
        ];
        let summaries = summarize(&["suffix", "ngram"], &entries);
        let named = |summary: &Value| [summary["method"].clone(), summary["kind"].clone()];
        assert_eq!(
            summaries.iter().map(named).collect::<Vec<_>>(),
            [
                ["suffix", "edit"],
                ["suffix", "all"],
                ["ngram", "edit"],
                ["ngram", "prose"],
                ["ngram", "all"]
            ]
        );
        assert_eq!(
            summaries[2],
            json!({
                "method": "ngram", "kind": "edit", "prompts": 3, "outputs_equal": 3, "speedups": 3,
                "speedup": 2.0, "predicted_speedup": 4.0,
                "mean_acceptance_length": 1.9, "draft_acceptance_rate": 0.45,
                "acceptance_per_pos": [0.6, 0.3], "acceptance_histogram": [4, 3, 3],
                "num_spec_steps": 10, "num_draft_tokens": 20, "num_accepted_draft_tokens": 9,
            })
        );
        // What differs is counted, and gives no speed-up.
        let suffix = &summaries[0];
        assert_eq!(
            (&suffix["outputs_equal"], &suffix["speedups"]),
            (&json!(1), &json!(1))
        );
        assert_eq!(
            (&suffix["speedup"], &suffix["prompts"]),
            (&json!(9.0), &json!(2))
        );
        // Nothing was drafted: no speed-up, and no division by zero.
        let prose = &summaries[3];
        assert!(prose.get("speedup").is_none() && prose.get("predicted_speedup").is_none());
        assert_eq!(prose["acceptance_per_pos"], json!([0.0, 0.0]));
        assert_eq!(prose["mean_acceptance_length"], 1.0);

        let text = describe(&summaries);
        assert!(text.contains("ngram        edit             2.00      4.00          1.90      45 %       3/3       3/3\n"), "{text}");
        assert!(text.contains("ngram        0.60 0.30;  4 3 3\n"), "{text}");
        assert!(
            text.contains("suffix       all              9.00"),
            "{text}"
        );
    }
}
