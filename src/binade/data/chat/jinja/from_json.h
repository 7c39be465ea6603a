#pragma once

#include "binade/base/json.h"
#include "binade/data/chat/jinja/value.h"

namespace binade::data::jinja {

// A value of a document, as Python's json.loads gives it to templates.
Value value_of(const json::Value& value);

}  // namespace binade::data::jinja
