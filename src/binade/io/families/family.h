#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "binade/nn/language_model.h"

// Model families whose Hugging Face folders Binade reads and writes. One file per family states its
// facts; io/huggingface_config and io/huggingface interpret them.
namespace binade::io {

// The rows of a packed parameter that a file's tensor holds; by_head: q, k and v of the first head,
// then of the second, and so on.
enum class Rows : uint8_t { all, q, k, v, gate, up, by_head };

// A module's tensors: its weight, and its bias if it has one.
struct TensorFact {
  std::string_view file, parameter;  // names without ".weight"
  Rows rows = Rows::all;
  bool transposed = false;  // the file has [in, out]
};

// Names of config.json's keys; empty: there is no such key.
struct ConfigKeys {
  std::string_view layers = "num_hidden_layers", width = "hidden_size",
                   heads = "num_attention_heads", kv_heads = "num_key_value_heads",
                   head_dim = "head_dim", hidden = "intermediate_size",
                   context = "max_position_embeddings", eps = "rms_norm_eps",
                   activation = "hidden_act", theta = "rope_theta", rotary_fraction = {},
                   local_theta = {}, parallel = {}, attention_bias = {}, mlp_bias = {},
                   query_scalar = {}, attention_softcap = {}, logit_softcap = {};
};

// Layers that are sliding if config.json does not list them.
enum class Windows : uint8_t {
  none,         // the family has no window
  all_layers,   // there is no list
  even_layers,  // 0, 2, 4, ...
  five_of_six,  // all but every sixth
  late_layers,  // from max_window_layers on, if use_sliding_window
};

struct Family {
  std::string_view type;          // model_type
  std::string_view architecture;  // transformers' class
  nn::LanguageModelConfig facts;  // what its models have in common; no sizes
  ConfigKeys keys = {};
  std::vector<std::string_view> activations = {"silu"};  // accepted names; the first is written
  // Values that transformers takes for keys that are missing.
  double eps = 1e-6, theta = 10000, rotary_fraction = 1;
  bool tied = false;
  int64_t head_dim = 0;      // 0: width / heads
  int64_t hidden_ratio = 0;  // hidden / width if the key is missing; 0: it must be there
  int64_t window = 0;
  Windows windows = Windows::none;
  bool scales_rope = true;        // linear and llama3
  bool scales_embedding = false;  // by sqrt(width)
  bool writes_dropout = false;    // under GPT-2's names
  // Flags whose other value is a variant that Binade does not have.
  std::vector<std::pair<std::string_view, bool>> required = {};

  std::string_view prefix = "model.";  // of all names but the head's; may be missing in files
  std::string_view layer = "layers.";
  std::string_view head = "lm_head.weight";
  std::vector<TensorFact> tensors = {{"embed_tokens", "embedding"}, {"norm", "norm"}};
  std::vector<TensorFact> layer_tensors = {};  // of each layer
};

// RMSNorm, rotary positions, SwiGLU, no biases: what most families vary.
Family llama_like(std::string_view type, std::string_view architecture);

Family gpt2();
Family llama();
Family mistral();
Family qwen2();
Family qwen3();
Family gemma2();
Family gemma3();
Family phi3();
Family olmo2();
Family gpt_neox();

// All families.
const std::vector<Family>& families();
// The family of a model_type, or null.
const Family* find_family(std::string_view type);
// How a model_type that is not supported differs; empty if unknown.
std::string_view difference_of(std::string_view type);

}  // namespace binade::io
