#include "binade/data/tokenizer_json/tokenizer_json.h"

#include "binade/data/tokenizer_json/pipeline.h"
#include "binade/data/tokenizer_json/read.h"
#include "binade/io/file.h"

namespace binade::data {
namespace {

class JsonTokenizer final : public Tokenizer {
 public:
  JsonTokenizer(std::string bytes, const std::string& name)
      : JsonTokenizer(read_tokenizer_json(bytes, name), std::move(bytes)) {}

  int64_t vocab() const override { return pipeline_.vocab(); }
  TemplateIds template_ids() const override { return template_ids_; }
  std::string decode(std::span<const int64_t> ids) const override { return pipeline_.decode(ids); }
  std::string_view model() const override { return bytes_; }

 protected:
  size_t part_end(std::string_view text, size_t begin) const override {
    return pipeline_.part_end(text, begin);
  }
  std::vector<int32_t> encode_part(std::string_view text, size_t begin, size_t end) const override {
    return pipeline_.encode(text, begin, end);
  }

 private:
  JsonTokenizer(TokenizerJson content, std::string&& bytes)
      : pipeline_(std::move(content.parts)),
        template_ids_(std::move(content.template_ids)),
        bytes_(std::move(bytes)) {}

  Pipeline pipeline_;
  TemplateIds template_ids_;
  std::string bytes_;
};

}  // namespace

std::unique_ptr<const Tokenizer> open_tokenizer_json(const std::filesystem::path& path) {
  return tokenizer_json_of(io::read_text(path, "tokenizer", max_tokenizer_bytes), path.string());
}

std::unique_ptr<const Tokenizer> tokenizer_json_of(std::string bytes, const std::string& name) {
  return std::make_unique<JsonTokenizer>(std::move(bytes), name);
}

}  // namespace binade::data
