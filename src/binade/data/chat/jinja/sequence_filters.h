#pragma once

#include "binade/data/chat/jinja/builtins.h"

// The filters of lists; each does what jinja2's filter of its name does.
namespace binade::data::jinja {

Value join_filter(Work& work, const Value& value, const CallArguments& arguments);
Value first_filter(Work& work, const Value& value, const CallArguments& arguments);
Value last_filter(Work& work, const Value& value, const CallArguments& arguments);
Value list_filter(Work& work, const Value& value, const CallArguments& arguments);
Value map_filter(Work& work, const Value& value, const CallArguments& arguments);
Value select_filter(Work& work, const Value& value, const CallArguments& arguments);
Value reject_filter(Work& work, const Value& value, const CallArguments& arguments);
Value selectattr_filter(Work& work, const Value& value, const CallArguments& arguments);
Value rejectattr_filter(Work& work, const Value& value, const CallArguments& arguments);
Value sort_filter(Work& work, const Value& value, const CallArguments& arguments);
Value dictsort_filter(Work& work, const Value& value, const CallArguments& arguments);
Value unique_filter(Work& work, const Value& value, const CallArguments& arguments);
Value reverse_filter(Work& work, const Value& value, const CallArguments& arguments);
Value sum_filter(Work& work, const Value& value, const CallArguments& arguments);
Value min_filter(Work& work, const Value& value, const CallArguments& arguments);
Value max_filter(Work& work, const Value& value, const CallArguments& arguments);
Value attr_filter(Work& work, const Value& value, const CallArguments& arguments);

}  // namespace binade::data::jinja
