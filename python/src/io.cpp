#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/unique_ptr.h>

#include "binade/data/tokenizer.h"
#include "binade/io/huggingface.h"
#include "binade/io/model_folder.h"
#include "binade/io/safetensors.h"
#include "binade/train/generate.h"
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
    text = tokenizer.decode(train::generate(
        model, tokenizer.encode_prompt(prompt.empty() ? "\n" : prompt), options, [](int64_t) {
          const nb::gil_scoped_acquire gil;  // Ctrl-C ends the text
          if (PyErr_CheckSignals() != 0) throw nb::python_error();
          return true;
        }));
  }
  return nb::bytes(text.data(), text.size());
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
  m.def("_model_folder",
        [](const std::filesystem::path& given) { return io::model_folder(given, "generate"); });
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
  nb::class_<TokenizerObject>(m, "Tokenizer", "Converts text to token ids and back.")
      .def_prop_ro("vocab", [](const TokenizerObject& self) { return self.tokenizer->vocab(); })
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
          "ids"_a, ReleaseGil(), "The text of ids.");
  m.def(
      "_open_tokenizer",
      [](const std::string& name) { return TokenizerObject{data::open_tokenizer(name)}; }, "name"_a,
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
