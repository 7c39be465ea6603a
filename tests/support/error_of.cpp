#include "support/error_of.h"

#include "binade/base/error.h"

namespace binade::test {

std::string error_of(FunctionRef<void()> f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace binade::test
