#include "binade/data/tokenizer_json/huggingface_files.h"

#include "binade/data/tokenizer.h"
#include "binade/data/tokenizer_json/write.h"
#include "binade/io/file.h"

namespace binade::data {
namespace {

void write_file(const std::filesystem::path& path, std::string_view text) {
  io::AtomicFile file(path, "tokenizer");
  file.append(text);
  file.commit();
}

}  // namespace

void add_huggingface_files(const std::filesystem::path& folder, int64_t vocab) {
  if (vocab == byte_vocabulary && !find_tokenizer(folder))
    write_file(folder / "tokenizer.json", byte_tokenizer_json());
  std::error_code ignored;  // writing says what is wrong
  const std::filesystem::path config = folder / "tokenizer_config.json";
  if (!std::filesystem::exists(folder / "tokenizer.json", ignored) ||
      std::filesystem::exists(config, ignored))
    return;
  // Without a class transformers takes the one of the model type, with its own split pattern.
  write_file(config, "{\"tokenizer_class\": \"PreTrainedTokenizerFast\"}\n");
}

}  // namespace binade::data
