#pragma once

#include <initializer_list>
#include <memory>
#include <string_view>

#include "binade/base/json.h"
#include "binade/data/tokenizer_json/decoder.h"
#include "binade/data/tokenizer_json/model.h"
#include "binade/data/tokenizer_json/normalizer.h"
#include "binade/data/tokenizer_json/pre_tokenizer.h"

// Readers of the members of a tokenizer.json.
namespace binade::data {

Normalizer read_normalizer(const json::Value& value);
PreTokenizer read_pre_tokenizer(const json::Value& value);
Decoder read_decoder(const json::Value& value);

enum class WordKind : uint8_t { text, bytes };
std::unique_ptr<const TokenModel> read_model(const json::Value& value, WordKind words);

// Fails about a member that is not in `known`.
void expect_members(const json::Value& object, std::initializer_list<std::string_view> known);
// A member, or null if it is missing or null.
const json::Value* optional_member(const json::Value& object, std::string_view name);
bool optional_flag(const json::Value& object, std::string_view name, bool otherwise);
// A string that is not empty.
const std::string& text_of(const json::Value& value);

inline constexpr int64_t max_token_id = (1 << 22) - 1;

}  // namespace binade::data
