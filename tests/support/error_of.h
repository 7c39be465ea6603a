#pragma once

#include <string>

#include "binade/base/function_ref.h"

namespace binade::test {

// Runs `f` and gives the text of the Error it throws; "" if it throws none. Matchers of the text
// are compiled once for all calls; gMock's ThrowsMessage is compiled anew for every lambda.
std::string error_of(FunctionRef<void()> f);

}  // namespace binade::test
