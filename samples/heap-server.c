// SPDX-License-Identifier: MIT
// A server that shows its heap profile to whoever asks:
//
//   heap-server 8080 &
//   pprof -http=: http://localhost:8080/debug/pprof/heap
//
// Every other request makes it remember something, for ever.
#include <mimalloc-prof.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static char* remembered[100000];
static size_t count;

static void send_all(int client, const char* data, size_t size) {
  while (size > 0) {
    const ssize_t sent = write(client, data, size);
    if (sent <= 0) return;
    data += sent;
    size -= (size_t)sent;
  }
}

static void send_piece(void* arg, const char* buf, size_t len) { send_all(*(int*)arg, buf, len); }

static void remember(int client, const char* request) {
  static const char answer[] = "HTTP/1.0 200 OK\r\n\r\nI shall remember that.\n";
  if (count == sizeof(remembered) / sizeof(remembered[0])) count = 0;  // all that was is lost
  char* const copy = (char*)mi_malloc(100000);
  if (copy != NULL) remembered[count++] = strcpy(copy, request);
  send_all(client, answer, sizeof(answer) - 1);
}

static void serve(int client) {
  static const char head[] = "HTTP/1.0 200 OK\r\nContent-Type: application/octet-stream\r\n\r\n";
  char request[2048];
  const ssize_t size = read(client, request, sizeof(request) - 1);
  request[size > 0 ? size : 0] = 0;
  if (strncmp(request, "GET /debug/pprof/heap", 21) != 0) {
    remember(client, request);
  } else {
    send_all(client, head, sizeof(head) - 1);
    mi_prof_write(MI_PROF_LIVE, MI_PROF_PPROF_GZ, send_piece, &client);
  }
}

int main(int argc, char** argv) {
  const int server = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  address.sin_port = htons((uint16_t)(argc > 1 ? atoi(argv[1]) : 8080));
  signal(SIGPIPE, SIG_IGN);  // of clients that do not wait for the end
  setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (bind(server, (struct sockaddr*)&address, sizeof(address)) != 0 || listen(server, 16) != 0) {
    perror("heap-server");
    return 1;
  }
  if (!mi_prof_start(0)) fprintf(stderr, "heap-server: there is no memory for profiles\n");
  for (int client; (client = accept(server, NULL, NULL)) >= 0; close(client)) serve(client);
  return 0;
}
