// SPDX-License-Identifier: MIT
// A server that answers requests, keeps sessions for as long as it should, and forgets to free one
// thing.
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

struct Session {
  std::string user;
  std::vector<char> page;
};

static std::map<int, std::unique_ptr<Session>> sessions;

static const char* parse(int request) {
  char* const header = new char[2000];  // leak
  std::snprintf(header, 2000, "user-%d", request % 500);
  return header;
}

static std::size_t answer(int request) {
  auto session = std::make_unique<Session>();
  session->user = parse(request);
  session->page.resize(20000);
  auto& place = sessions[request % 500];
  place = std::move(session);
  return place->page.size();
}

int main() {
  std::size_t sent = 0;
  for (int i = 0; i < 40000; i++) sent += answer(i);
  sessions.clear();
  return sent == 0;
}
