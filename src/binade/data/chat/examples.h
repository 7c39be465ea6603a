#pragma once

#include <string>

#include "binade/data/corpus.h"

// Files of examples to learn answers from.
namespace binade::data {

// Whether a source is a .jsonl file, perhaps packed, whose first line is an example rather than a
// text.
bool is_example_file(const std::string& where);

// Whether a value of --data is such a file or a mixture (mixture.h) with one.
bool has_examples(const std::string& data);

// The examples of such a file, as the documents of a split. A line is an object with
//   messages: [{role, content}, ...], rendered by the source's chat template;
//   prompt and completion: texts, or lists of messages;
//   instruction, output and perhaps input: a question of a user and its answer.
// If the source is one of pairs, a line has two answers (data/chat/pairs.h), which are documents 2i
// and 2i + 1 of pair i; pairs that are the same within the context are left out, with a warning.
// Only answers are targets, each with the token that ends it. The last examples are for validation.
// Examples without a target among the first context + 1 tokens are left out, with a warning.
Split read_examples(const Source& source);

// All examples as documents, none held out.
Tokens read_all_examples(const Source& source);

}  // namespace binade::data
