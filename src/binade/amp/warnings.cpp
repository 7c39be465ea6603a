#include "binade/amp/warnings.h"

#include <mutex>
#include <utility>

#include "binade/base/terminal.h"

namespace binade::amp {
namespace {

std::mutex warning_mutex;
WarningFunction warning_function;  // empty: stderr

}  // namespace

WarningFunction set_warning_function(WarningFunction function) {
  const std::scoped_lock lock(warning_mutex);
  return std::exchange(warning_function, std::move(function));
}

void warn(const std::string& text) {
  WarningFunction function;
  {
    const std::scoped_lock lock(warning_mutex);
    function = warning_function;
  }
  function ? function(text) : terminal::print_warning(text);
}

}  // namespace binade::amp
