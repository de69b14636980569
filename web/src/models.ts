/** The models that this page points at. Whatever else is loaded is its user's choice, under its publisher's licence. */

export interface KnownModel {
  name: string;
  /** On the server that the page comes from, or in the repository of its publisher. */
  url: string;
  about: string;
  licence: string;
  /** Of the file, in hexadecimal digits, checked while it loads; absent: what the publisher's hub lists then. */
  sha256?: string;
}

export const MODELS: KnownModel[] = [
  {
    name: "SmolLM2-135M-Instruct, from this server",
    url: "models/smollm2-135m.gguf",
    about: "135 million parameters in Q4_1, 94 MB",
    licence: "Apache-2.0, by Hugging Face",
    sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
  },
  {
    name: "Qwen2.5-Coder-0.5B-Instruct, from its publisher",
    url: "https://huggingface.co/Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF/resolve/main/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
    about: "500 million parameters in Q4_K_M, 491 MB",
    licence: "Apache-2.0, by Alibaba Cloud",
  },
  {
    name: "Qwen2.5-Coder-1.5B-Instruct, from its publisher",
    url: "https://huggingface.co/Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF/resolve/main/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
    about: "1.5 billion parameters in Q4_K_M, 1.1 GB",
    licence: "Apache-2.0, by Alibaba Cloud",
  },
];
