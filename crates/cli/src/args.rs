//! The command line.

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use foretoken_engine::{
    CompletionRequest, PrefixReuse, Quantization, SpeculativeConfig, SpeculativeMethod,
    StatisticsLevel, parse_metrics_level,
};
use foretoken_gpu::Tier;
use serde_json::{Map, Number, Value, json};

use crate::commands::ANY_MODEL;
use crate::device::CPU;

/// Runs language models on your GPU through WebGPU kernels.
#[derive(Debug, Parser)]
#[command(name = "foretoken", version, arg_required_else_help = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// The same, if its options also fit together, which no option's parser can see.
    pub fn checked(self) -> Result<Self, clap::Error> {
        let wrong = |kind, message: String| Self::command().error(kind, message);
        if let Some(generate) = self.command.generate()
            && !generate.stop.is_empty()
        {
            accepted("stop", generate.stop.clone().into()).map_err(|message| {
                wrong(
                    ErrorKind::TooManyValues,
                    format!("invalid use of '--stop <TEXT>': {message}"),
                )
            })?;
        }
        if let Some(model) = self.command.model()
            && model.device.as_deref() == Some(CPU)
            && model.tier.is_some()
        {
            return Err(wrong(
                ErrorKind::ArgumentConflict,
                "'--tier <TIER>' is about GPU features: leave it out with '--device cpu'"
                    .to_owned(),
            ));
        }
        if let Some(message) = self.command.model().and_then(ModelArgs::wrong_drafting) {
            return Err(wrong(ErrorKind::ArgumentConflict, message.to_owned()));
        }
        if let Command::Bench(args) = &self.command
            && let Some(message) = args.wrong_methods()
        {
            return Err(wrong(ErrorKind::ArgumentConflict, message));
        }
        Ok(self)
    }
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// One answer for PROMPT (or for piped input); without either, an interactive chat
    Chat(ChatArgs),
    /// Continues a text, without a chat template
    Complete(CompleteArgs),
    /// Measures prefill and decoding, and counts what a token costs
    Bench(BenchArgs),
    /// Shows what a model file holds, and whether and how it would run here
    Inspect(InspectArgs),
    /// Lists adapters, their limits and features, the one that would be taken first
    Devices(DevicesArgs),
}

impl Command {
    /// Whether stdout is for one JSON object and nothing else.
    pub fn json(&self) -> bool {
        match self {
            Command::Chat(args) => args.generate.json,
            Command::Complete(args) => args.generate.json,
            Command::Bench(args) => args.json,
            Command::Inspect(args) => args.json,
            Command::Devices(args) => args.json,
        }
    }

    fn generate(&self) -> Option<&GenerateArgs> {
        match self {
            Command::Chat(args) => Some(&args.generate),
            Command::Complete(args) => Some(&args.generate),
            Command::Bench(_) | Command::Inspect(_) | Command::Devices(_) => None,
        }
    }

    fn model(&self) -> Option<&ModelArgs> {
        match self {
            Command::Chat(args) => Some(&args.model),
            Command::Complete(args) => Some(&args.model),
            Command::Bench(args) => Some(&args.model),
            Command::Inspect(_) | Command::Devices(_) => None,
        }
    }
}

/// Which model, and where it runs.
#[derive(Debug, Clone, Args)]
pub struct ModelArgs {
    /// A .gguf file; a folder with config.json, tokenizer.json and .safetensors files; the alias of either in the models
    /// folder ($FORETOKEN_MODELS, by default ~/.cache/foretoken/models); or a model of the Hugging Face hub:
    /// hf:owner/repository, hf:owner/repository:Q4_K_M or hf:owner/repository/file.gguf, fetched where it is not there
    #[arg(long, value_name = "PATH|ALIAS|hf:…", default_value = "smollm2-135m")]
    pub model: String,

    /// Quantises matrices of f32, f16 and bf16 while loading: q8_0, or q4_0 (the embedding and the head q8_0)
    /// [default: as the file has them]
    #[arg(long, value_name = "FORMAT", value_parser = quantization)]
    pub quantize: Option<Quantization>,

    /// KV capacity in tokens [default: the smaller of the model's and 4096]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..))]
    pub context_length: Option<u32>,

    /// The adapter, by its index or a part of its name as `foretoken devices` lists them; `cpu` is the
    /// reference, plain f32 without a GPU [default: the fastest]
    #[arg(long, value_name = "INDEX|NAME", value_parser = device)]
    pub device: Option<String>,

    /// Holds the engine to fewer device features than it has: base, f16, subgroup, subgroup-f16
    /// [default: all the device has]
    #[arg(long, value_name = "TIER", value_parser = tier)]
    pub tier: Option<Tier>,

    /// Takes the kernels of the device's class: nothing is measured, and what was measured before is not taken
    #[arg(long)]
    pub no_tune: bool,

    /// A small model that drafts for the methods draft_model and auto, found as --model is; or name it in the configuration,
    /// as "model". One that cannot be used is left out, with a warning
    #[arg(long, value_name = "PATH|ALIAS|hf:…")]
    pub draft_model: Option<String>,

    /// Drafts ahead, which makes answers faster and never other ones: an object with vLLM's names, such as
    /// {"method": "ngram", "num_speculative_tokens": 5, "prompt_lookup_min": 2, "prompt_lookup_max": 4} or
    /// {"method": "draft_model", "num_speculative_tokens": 3}
    #[arg(long, value_name = "JSON", value_parser = speculation)]
    pub speculative_config: Option<Speculation>,

    /// What responses tell about drafts and their acceptance: none, summary or detailed
    #[arg(long, value_name = "LEVEL", default_value = "none", value_parser = metrics_level)]
    pub per_request_spec_decode_metrics: StatisticsLevel,

    /// Adds timing to responses
    #[arg(long)]
    pub enable_per_request_metrics: bool,

    /// Ends every stream with its usage
    #[arg(long)]
    pub enable_force_include_usage: bool,

    /// What of the KV cache the next answer may take over: exact, full or off
    #[arg(long, value_name = "MODE", default_value = "exact", value_parser = prefix_reuse)]
    pub prefix_reuse: PrefixReuse,

    /// Agrees to what set-up asks. The binary itself installs nothing, but for `bench --compare`, and never
    /// asks: it takes the option so that scripts can pass it everywhere
    #[arg(long)]
    pub yes: bool,
}

/// `--speculative-config`.
#[derive(Debug, Clone)]
pub struct Speculation {
    /// What the engine is told.
    pub config: SpeculativeConfig,
    /// The draft model that it names.
    pub draft: Option<String>,
}

impl ModelArgs {
    /// The draft model, whichever option names it.
    pub fn draft(&self) -> Option<&str> {
        let named = self.speculative_config.as_ref();
        let named = named.and_then(|speculation| speculation.draft.as_deref());
        self.draft_model.as_deref().or(named)
    }

    /// What does not fit together about drafting.
    fn wrong_drafting(&self) -> Option<&'static str> {
        let Some(Speculation { config, draft }) = &self.speculative_config else {
            return self.draft_model.is_some().then_some(
                "'--draft-model <PATH|ALIAS|hf:…>' needs '--speculative-config', such as \
                 {\"method\": \"draft_model\", \"num_speculative_tokens\": 3}",
            );
        };
        if draft.is_some() && self.draft_model.is_some() {
            return Some(
                "the draft model is named by '--draft-model <PATH|ALIAS|hf:…>' and by speculative_config.model: pass one of them",
            );
        }
        (config.method == SpeculativeMethod::DraftModel && self.draft().is_none()).then_some(
            "the method draft_model needs '--draft-model <PATH|ALIAS|hf:…>', or \"model\" in '--speculative-config <JSON>'",
        )
    }

    /// The same, for answers put out as `generate` asks: the closing line of one that is shown as text tells acceptance,
    /// which somebody has to count.
    pub fn for_answers(&self, generate: &GenerateArgs) -> Self {
        let mut args = self.clone();
        if !generate.json && args.speculative_config.is_some() {
            let level = &mut args.per_request_spec_decode_metrics;
            *level = (*level).max(StatisticsLevel::Summary);
        }
        args
    }
}

/// How an answer is made and shown.
#[derive(Debug, Clone, Args)]
pub struct GenerateArgs {
    /// The most tokens to generate [default: to the context's end]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_tokens: Option<u32>,

    /// 0: greedy decoding; up to 2 [default: 1]
    #[arg(long, value_name = "T", allow_negative_numbers = true, value_parser = |text: &str| number(text, 0.0, 2.0))]
    pub temperature: Option<f64>,

    /// Chooses among the K most probable tokens; -1 or 0: among all
    #[arg(long, value_name = "K", allow_negative_numbers = true, value_parser = top_k)]
    pub top_k: Option<i64>,

    /// Chooses among the most probable tokens that together reach this probability
    #[arg(long, value_name = "P", allow_negative_numbers = true, value_parser = |text: &str| above_zero(text, 1.0))]
    pub top_p: Option<f64>,

    /// Chooses among tokens at least this probable relative to the most probable one
    #[arg(long, value_name = "P", allow_negative_numbers = true, value_parser = |text: &str| number(text, 0.0, 1.0))]
    pub min_p: Option<f64>,

    /// The same seed gives the same answer [default: drawn, and reported]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = seed)]
    pub seed: Option<Number>,

    /// Lowers tokens that the answer has, once; -2 to 2
    #[arg(long, value_name = "X", allow_negative_numbers = true, value_parser = |text: &str| number(text, -2.0, 2.0))]
    pub presence_penalty: Option<f64>,

    /// Lowers tokens that the answer has, for each time; -2 to 2
    #[arg(long, value_name = "X", allow_negative_numbers = true, value_parser = |text: &str| number(text, -2.0, 2.0))]
    pub frequency_penalty: Option<f64>,

    /// Above 1: lowers tokens that prompt or answer have
    #[arg(long, value_name = "X", allow_negative_numbers = true, value_parser = |text: &str| above_zero(text, 10.0))]
    pub repetition_penalty: Option<f64>,

    /// What to add to the logits of tokens: {"ID": -100 to 100, …}
    #[arg(long, value_name = "JSON", value_parser = logit_bias)]
    pub logit_bias: Option<Map<String, Value>>,

    /// So many answers, 1 to 8
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=8))]
    pub n: Option<u32>,

    /// With --json: log-probabilities of each token, and of the N most probable ones, 0 to 20
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(0..=20))]
    pub logprobs: Option<u32>,

    /// Colours the answer by where its tokens came from (on a terminal; `=always` everywhere); with --json: adds
    /// choices[].token_provenance
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_missing_value = "auto")]
    pub show_drafts: Option<Colour>,

    /// Ends the answer where this text would come; up to four times
    #[arg(long, value_name = "TEXT", value_parser = stop)]
    pub stop: Vec<String>,

    /// Prints the response object and nothing else on stdout
    #[arg(long)]
    pub json: bool,

    /// With --json: one chunk object a line, as they come. (Text always comes as it is made)
    #[arg(long)]
    pub stream: bool,

    /// With --json: adds choices[].token_ids and prompt_token_ids
    #[arg(long)]
    pub return_token_ids: bool,
}

/// `foretoken chat`.
#[derive(Debug, Clone, Args)]
pub struct ChatArgs {
    /// What to say
    pub prompt: Option<String>,

    /// A system message in front
    #[arg(long, value_name = "TEXT")]
    pub system: Option<String>,

    /// A JSON file with a list of messages, instead of PROMPT
    #[arg(long, value_name = "FILE", conflicts_with = "prompt")]
    pub messages: Option<PathBuf>,

    /// A JSON file with a list of tools that the answer may call, as in OpenAI's API
    #[arg(long, value_name = "FILE")]
    pub tools: Option<PathBuf>,

    /// Variables of the model's chat template, such as {"enable_thinking": false}
    #[arg(long, value_name = "JSON", value_parser = json_object)]
    pub chat_template_kwargs: Option<Map<String, Value>>,

    /// Which model, and where.
    #[command(flatten)]
    pub model: ModelArgs,

    /// How.
    #[command(flatten)]
    pub generate: GenerateArgs,
}

/// `foretoken complete`.
#[derive(Debug, Clone, Args)]
#[command(group = clap::ArgGroup::new("text").required(true))]
pub struct CompleteArgs {
    /// The text to continue
    #[arg(long, value_name = "TEXT", group = "text")]
    pub prompt: Option<String>,

    /// A file with the text to continue
    #[arg(long, value_name = "FILE", group = "text")]
    pub prompt_file: Option<PathBuf>,

    /// Which model, and where.
    #[command(flatten)]
    pub model: ModelArgs,

    /// How.
    #[command(flatten)]
    pub generate: GenerateArgs,
}

/// `foretoken bench`.
#[derive(Debug, Clone, Args)]
#[command(group = clap::ArgGroup::new("runs_prompts").args(["speculative_config", "compare"]).multiple(true))]
pub struct BenchArgs {
    /// A JSON list of {"id", "messages" or "prompt", "max_tokens"}, run greedily: with --speculative-config with
    /// and without speculation in turn, with --compare against the other engine; needs one of them
    #[arg(long, value_name = "FILE", requires = "runs_prompts")]
    pub prompts: Option<PathBuf>,

    /// Runs each prompt by each of these methods in turn, and says how they compare: a list of ngram, suffix, draft_model and auto,
    /// with commas. What else they are told is in --speculative-config; the method auto takes the keys of all
    #[arg(long, value_name = "METHOD,…", value_delimiter = ',', value_parser = method, requires = "prompts", requires = "speculative_config")]
    pub methods: Vec<SpeculativeMethod>,

    /// Runs the same file and prompts in another engine too, in turn. Needs Node 20 with npm, and installs
    /// node-llama-cpp in a folder of its own below ~/.cache/foretoken/tools
    #[arg(long, value_name = "ENGINE")]
    pub compare: Option<Peer>,

    /// Which model, and where.
    #[command(flatten)]
    pub model: ModelArgs,

    /// Prints one JSON object and nothing else on stdout
    #[arg(long)]
    pub json: bool,
}

impl BenchArgs {
    /// What does not fit together about `--methods`.
    fn wrong_methods(&self) -> Option<String> {
        let methods = &self.methods;
        let twice = methods.iter().enumerate();
        let mut twice = twice.filter(|(i, method)| methods[..*i].contains(method));
        if let Some((_, method)) = twice.next() {
            let name = method.name();
            return Some(format!("'--methods <METHOD,…>' names {name} twice"));
        }
        if methods.contains(&SpeculativeMethod::DraftModel) && self.model.draft().is_none() {
            let needed = "'--methods <METHOD,…>' names draft_model, which needs '--draft-model <PATH|ALIAS|hf:…>'";
            return Some(needed.to_owned());
        }
        let given = self.model.speculative_config.as_ref()?;
        (methods.contains(&SpeculativeMethod::Auto) && !given.config.adaptive).then(|| {
            "'--methods <METHOD,…>' names auto, which chooses by what pays: leave \"adaptive\": false out of \
             '--speculative-config <JSON>', or auto out of the methods"
                .to_owned()
        })
    }
}

/// `foretoken inspect`.
#[derive(Debug, Clone, Args)]
pub struct InspectArgs {
    /// A .gguf file, a folder with safetensors files, an alias, or hf:owner/repository[:QUANT|/file.gguf]
    #[arg(value_name = "MODEL")]
    pub model: String,

    /// Counts the weights as quantised while loading: q8_0 or q4_0
    #[arg(long, value_name = "FORMAT", value_parser = quantization)]
    pub quantize: Option<Quantization>,

    /// Prints one JSON object and nothing else on stdout
    #[arg(long)]
    pub json: bool,
}

/// `foretoken devices`.
#[derive(Debug, Clone, Args)]
pub struct DevicesArgs {
    /// Prints one JSON object and nothing else on stdout
    #[arg(long)]
    pub json: bool,
}

/// What `bench --compare` runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Peer {
    /// llama.cpp on the CPU, as many threads as there are cores
    LlamaCpp,
    /// llama.cpp on Vulkan
    LlamaCppVulkan,
}

/// When an answer is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Colour {
    /// Where stdout is a terminal.
    Auto,
    /// Always.
    Always,
}

/// What the engine says about one field of a request, so that its limits are written once.
fn accepted(field: &str, value: Value) -> Result<(), String> {
    let request = json!({ "prompt": "", field: value });
    let parsed = CompletionRequest::parse(&request, &ANY_MODEL);
    parsed.map(drop).map_err(|error| error.to_string())
}

/// An adapter's index, a part of its name, or `cpu`. Nothing is a part of every name.
fn device(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err(
            "an index, a part of a name (see `foretoken devices`) or cpu is needed".to_owned(),
        );
    }
    Ok(text.to_owned())
}

fn tier(text: &str) -> Result<Tier, String> {
    let tiers = || Tier::ALL.map(Tier::name).join(", ");
    Tier::parse(text).map_err(|_| match text {
        "int8" => format!("int8 is not built; this build has {}", tiers()),
        _ => format!("one of {} is needed", tiers()),
    })
}

/// -1 or 0, or a number of tokens; how many there are is the model's to say.
fn top_k(text: &str) -> Result<i64, String> {
    match text.parse::<i64>() {
        Ok(value) if value >= -1 && value <= i64::from(u32::MAX) => Ok(value),
        _ => Err(
            "an integer is needed: -1 or 0 (off), or 1 up to the size of the model's vocabulary"
                .to_owned(),
        ),
    }
}

fn stop(text: &str) -> Result<String, String> {
    accepted("stop", text.into())?;
    Ok(text.to_owned())
}

fn logit_bias(text: &str) -> Result<Map<String, Value>, String> {
    let object = json_object(text)?;
    accepted("logit_bias", Value::Object(object.clone()))?;
    Ok(object)
}

/// A number above 0, up to and including `max`.
fn above_zero(text: &str, max: f64) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value <= max => Ok(value),
        _ => Err(format!("a number above 0, up to {max}, is needed")),
    }
}

/// A number within a range, its ends included.
fn number(text: &str, min: f64, max: f64) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (min..=max).contains(&value) => Ok(value),
        _ => Err(format!("a number within {min}..={max} is needed")),
    }
}

/// Any integer of 64 bits, signed or not.
fn seed(text: &str) -> Result<Number, String> {
    let unsigned = text.parse::<u64>().map(Number::from);
    unsigned
        .or_else(|_| text.parse::<i64>().map(Number::from))
        .map_err(|_| "an integer of 64 bits is needed".to_owned())
}

fn json_object(text: &str) -> Result<Map<String, Value>, String> {
    serde_json::from_str(text).map_err(|error| format!("a JSON object is needed: {error}"))
}

fn speculation(text: &str) -> Result<Speculation, String> {
    let config = Value::Object(json_object(text)?);
    let (config, draft) =
        SpeculativeConfig::parse_with_model(&config).map_err(|error| error.to_string())?;
    Ok(Speculation { config, draft })
}

fn method(text: &str) -> Result<SpeculativeMethod, String> {
    let config = json!({ "method": text, "num_speculative_tokens": 1 });
    let parsed = SpeculativeConfig::parse(&config);
    let config = parsed.map_err(|error| error.to_string())?;
    Ok(config.method)
}

fn quantization(text: &str) -> Result<Quantization, String> {
    let names = || Quantization::ALL.map(Quantization::name).join(" or ");
    Quantization::parse(text).ok_or_else(|| format!("{} is needed", names()))
}

fn metrics_level(text: &str) -> Result<StatisticsLevel, String> {
    parse_metrics_level(text).ok_or_else(|| "none, summary or detailed is needed".to_owned())
}

fn prefix_reuse(text: &str) -> Result<PrefixReuse, String> {
    PrefixReuse::parse(text).ok_or_else(|| "exact, full or off is needed".to_owned())
}
