#pragma once

#include <string>

#include "binade/base/json.h"
#include "binade/data/chat/encoder.h"

// Pairs of a better and a worse answer to the same prompt.
namespace binade::data {

struct Pair {
  Example chosen, rejected;
};

// Whether a line is a pair rather than an example or a text.
bool is_pair(const json::Value& root);

// A line with `chosen` and `rejected`: texts behind the text `prompt`; or lists of messages behind
// the list `prompt`, or without one, or beside a text, whole conversations, whose prompt are the
// messages that both begin with. Only the messages behind the prompt are answers. Fails, as
// `where`, if one of them is missing or has no answer at its end.
Pair parse_pair(const json::Value& root, const std::string& where);

}  // namespace binade::data
