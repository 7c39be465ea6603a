#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/unique_ptr.h>

#include "binade/data/tokenizer.h"
#include "binade/data/tokenizer_json/huggingface_files.h"
#include "binade/io/convert_model.h"
#include "binade/io/huggingface.h"
#include "binade/io/lora.h"
#include "binade/io/model_folder.h"
#include "binade/io/safetensors.h"
#include "binade/ops/create/create.h"
#include "binade/train/evaluate.h"
#include "binade/train/generate.h"
#include "binade/train/run/continuation.h"
#include "bindings.h"

namespace binade::python {
namespace {

// Python has no const objects, and tokenizers are const.
struct TokenizerObject {
  std::shared_ptr<const data::Tokenizer> tokenizer;
};

nb::bytes generate_text(nn::LanguageModel& model, const data::Tokenizer& tokenizer,
                        const std::string& prompt, const train::GenerateOptions& options) {
  std::string text;
  {
    const nb::gil_scoped_release no_gil;
    train::check_options(options);
    const train::ContinuationOptions all{.generate = options, .interrupted = [] {
                                           const nb::gil_scoped_acquire gil;  // Ctrl-C
                                           if (PyErr_CheckSignals() != 0) throw nb::python_error();
                                           return false;
                                         }};
    text = train::continue_text(model, tokenizer,
                                tokenizer.encode_prompt(prompt.empty() ? "\n" : prompt), all,
                                [](std::string_view) {})
               .text;
  }
  return nb::bytes(text.data(), text.size());
}

// What `binade eval` prints, by name. Runs under the autocast of the calling thread.
nb::dict evaluate(const std::filesystem::path& folder, const std::string& text, int64_t batch,
                  int64_t stride, Device device) {
  train::Evaluation result;
  std::optional<train::EvaluationData> data;
  {
    const nb::gil_scoped_release no_gil;
    const auto model = io::load_pretrained(folder, {device, DType::f32});
    data = train::evaluation_data(folder, text, model->config());
    result = stride > 0 ? train::evaluate_windows(*model, data->tokens, stride, batch)
                        : train::evaluate(*model, data->tokens, batch);
  }
  nb::dict out;
  out["data"] = data->source;
  out["tokens"] = result.tokens;
  out["loss"] = result.loss;
  out["perplexity"] = result.perplexity();
  // The bytes of the text are known if every token was predicted.
  if (data->bytes && result.tokens == data->tokens.size() - 1)
    out["bits_per_byte"] = result.bits_per_byte(*data->bytes);
  return out;
}

int64_t export_model(const std::filesystem::path& from, const std::filesystem::path& to,
                     std::optional<DType> dtype, bool adapter, bool force) {
  io::ConvertOptions options{.dtype = dtype, .force = force, .complete = {}};
  if (adapter) return io::convert_adapter(from, to, options).parameters;
  options.complete =
      [vocab = io::read_config(io::config_file(from)).vocab](const std::filesystem::path& folder) {
        data::add_huggingface_files(folder, vocab);
      };
  return io::convert_pretrained(from, to, options).parameters;
}

void bind_tokenizer(nb::module_& m) {
  nb::class_<TokenizerObject>(
      m, "Tokenizer",
      "Converts text to token ids and back. Made from a tokenizer.json, a vocab.json with "
      "merges.txt, a SentencePiece model, or a folder with one; \"bytes\" for the bytes of a text.")
      .def(
          "__init__",
          [](TokenizerObject* self, const std::filesystem::path& path) {
            new (self) TokenizerObject{data::open_tokenizer(path.string())};
          },
          "path"_a = "bytes")
      .def_prop_ro(
          "vocab", [](const TokenizerObject& self) { return self.tokenizer->vocab(); },
          "The number of ids.")
      .def("__len__", [](const TokenizerObject& self) { return self.tokenizer->vocab(); })
      .def(
          "encode",
          [](const TokenizerObject& self, const std::string& text) {
            return self.tokenizer->encode(text);
          },
          "text"_a, ReleaseGil(), "The ids of a text.")
      .def(
          "decode",
          [](const TokenizerObject& self, const std::vector<int64_t>& ids) {
            return train::printable(self.tokenizer->decode(ids));
          },
          "ids"_a, ReleaseGil(), "The text of ids, a list or a tensor.")
      .def(
          "decode",
          [](const TokenizerObject& self, const Tensor& ids) {
            const std::vector<double> values = to_vector(ids);
            const std::vector<int64_t> numbers(values.begin(), values.end());
            return train::printable(self.tokenizer->decode(numbers));
          },
          "ids"_a, ReleaseGil());
}

}  // namespace

void bind_io(nb::module_& m) {
  m.def(
      "load_safetensors",
      [](const std::filesystem::path& path) { return io::load_safetensors(path); }, "path"_a,
      ReleaseGil(), "All tensors of a safetensors file, by name.");
  m.def(
      "save_safetensors",
      [](const std::filesystem::path& path, const StateDict& tensors,
         const io::Metadata& metadata) { io::save_safetensors(path, tensors, metadata); },
      "path"_a, "tensors"_a, "metadata"_a = io::Metadata{}, ReleaseGil(),
      "Writes tensors by name; the file is replaced atomically.");
  m.def("_model_folder", [](const std::filesystem::path& given, const std::string& caller) {
    return io::model_folder(given, caller);
  });
  m.def(
      "_load_pretrained",
      [](const std::filesystem::path& folder, Device device, DType dtype) {
        return io::load_pretrained(folder, {device, dtype});
      },
      ReleaseGil());
  m.def(
      "_save_pretrained",
      [](const nn::LanguageModel& model, const std::filesystem::path& folder) {
        io::save_pretrained(model, folder);
      },
      ReleaseGil());
  bind_tokenizer(m);
  m.def("_evaluate", &evaluate, "folder"_a, "data"_a, "batch"_a, "stride"_a, "device"_a);
  m.def("_export", &export_model, "source"_a, "to"_a, "dtype"_a.none(), "adapter"_a, "force"_a,
        ReleaseGil());
  m.def(
      "_tokenizer_of",
      [](const std::filesystem::path& folder, int64_t vocab) {
        return TokenizerObject{data::tokenizer_of(folder, vocab)};
      },
      ReleaseGil());
  m.def("_generate",
        [](nn::LanguageModel& model, const TokenizerObject& tokenizer, const std::string& prompt,
           int64_t tokens, double temperature, int64_t top_k, double top_p, uint64_t seed) {
          return generate_text(model, *tokenizer.tokenizer, prompt,
                               {.tokens = tokens,
                                .temperature = temperature,
                                .top_k = top_k,
                                .top_p = top_p,
                                .seed = seed});
        });
  m.def(
      "_generate_ids",
      [](nn::LanguageModel& model, const std::vector<int64_t>& prompt, int64_t tokens,
         double temperature, int64_t top_k, double top_p, uint64_t seed) {
        const train::GenerateOptions options{.tokens = tokens,
                                             .temperature = temperature,
                                             .top_k = top_k,
                                             .top_p = top_p,
                                             .seed = seed};
        train::check_options(options);
        return train::generate(model, prompt, options);
      },
      ReleaseGil());
}

}  // namespace binade::python
