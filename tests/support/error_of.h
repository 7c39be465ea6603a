#pragma once

#include <functional>
#include <string>

namespace binade::test {

// Runs `f` and gives the text of the Error it throws; "" if it throws none. Matchers of the text
// are compiled once for all calls; gMock's ThrowsMessage is compiled anew for every lambda.
std::string error_of(const std::function<void()>& f);

}  // namespace binade::test
