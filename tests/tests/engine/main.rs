//! The engine on TINY and `CpuOps`: requests in, OpenAI-shaped answers out. Every response and chunk of this suite is held
//! against the schema and the identities of the metrics (`schema.rs`).
//!
//! Faults that systems like this one have shipped, and the tests that would see them here. (`decode` has its own
//! for what a loop over scripted logits shows better: puppet drafters, KV audits, chi-square.)
//!
//! | seen in | fault | test |
//! | --- | --- | --- |
//! | transformers#47932 | drafts and acceptance under different distributions | `sampling::speculation_changes_no_token_in_any_mix` |
//! | vllm#6038 | same seed, other tokens with speculation or company | `sampling::a_seed_gives_one_answer_alone_or_among_others` |
//! | vllm#41758 | greedy text differs with n-gram drafts | `sampling::speculation_changes_no_token_in_any_mix` |
//! | vllm#42744 | bias, min-p, penalties not on every verified row | `sampling::a_forbidden_token_never_comes`, and the mixes |
//! | vllm#41768 | min_tokens off by one under speculation | `sampling::min_tokens_end_where_plain_decoding_ends` |
//! | transformers#47912 | tokens after EOS of an accepted block | `sampling::a_stop_at_any_token_is_plain_decodings` |
//! | vllm#42533 | drafts beyond the context's end | `sampling::prompts_up_to_the_contexts_end` |
//! | llama.cpp#27972 | accepted tokens with probability 1 | `sampling::logprobs_are_the_same_with_speculation` |
//! | llama.cpp#14104 | drafts that were never verified in the rate | `schema::check_metrics`, on every response |
//! | llama.cpp#25345 | speculation silently off | `metrics::speculation_that_cannot_run_says_so` |
//! | aprender#2014 | KV lengths astray after drafting | `prefix::any_order_of_prompts_equals_a_fresh_engine` |
//! | sglang#23392 | cancel and retry corrupt other answers | `queue::cancelled_requests_leave_no_trace` |
//! | vllm#27969 | drafts that a grammar forbids | `requests::…`: grammars are refused by name, there are none yet |
//! | web-llm#522 | two calls interleave their tokens | `queue::requests_that_are_not_awaited_take_turns` |
//! | ik_llama.cpp#1929 | one client's cancel ends another's answer | `queue::each_request_has_its_own_abort` |
//! | llama.cpp#24496 | work goes on after the client left | `queue::a_dropped_request_stops_at_once` |
//! | candle#2937 | the second prompt on an instance | `prefix::any_order_of_prompts_equals_a_fresh_engine` |
//! | vercel/ai#7417 | chunks that a strict schema rejects | `schema::check_chunks`, on every stream |
//! | vercel/ai#14277 | tool calls that are not what they seem | `parts::what_is_no_call_stays_text` |

mod answers;
mod draft;
mod loading;
mod metrics;
mod parts;
mod prefix;
mod queue;
mod requests;
mod rig;
mod sampling;
mod schema;
mod suffix;
mod watched_ops;
