package main

import (
	"bufio"
	"encoding/json"
	"sync"
	"time"
)

// watched records the history of a watched request ("-w17" in its model name), in unix microseconds.
type watched struct {
	Arrived  int64 `json:"arrived"`
	Left     int64 `json:"left,omitempty"`
	Answered int64 `json:"answered,omitempty"`
}

var (
	watchLock sync.Mutex
	watches   = map[int]*watched{}
)

// watcher detects at once that a client disconnects, even while nothing is written. Not for pipelined requests.
type watcher struct {
	seen *watched
	done chan struct{}
	err  error
}

// watch returns nil for requests that are not watched, so they cost nothing extra.
func watch(id int, r *bufio.Reader) *watcher {
	if id == 0 {
		return nil
	}
	w := &watcher{seen: &watched{Arrived: time.Now().UnixMicro()}, done: make(chan struct{})}
	watchLock.Lock()
	watches[id] = w.seen
	watchLock.Unlock()
	go func() {
		_, w.err = r.Peek(1)
		if w.err != nil {
			w.end(&w.seen.Left)
		}
		close(w.done)
	}()
	return w
}

func (w *watcher) end(at *int64) {
	watchLock.Lock()
	defer watchLock.Unlock()
	if w.seen.Left == 0 && w.seen.Answered == 0 {
		*at = time.Now().UnixMicro()
	}
}

// pause sleeps; returns false if the client disconnected during the pause.
func (w *watcher) pause(d time.Duration) bool {
	if w == nil {
		if d > 0 {
			time.Sleep(d)
		}
		return true
	}
	select {
	case <-w.done:
		return w.err == nil
	case <-time.After(d):
		return true
	}
}

// next waits for the next request on the connection; returns false if there is none.
func (w *watcher) next() bool {
	if w == nil {
		return true
	}
	w.end(&w.seen.Answered)
	<-w.done
	return w.err == nil
}

func stats() []byte {
	watchLock.Lock()
	defer watchLock.Unlock()
	text, _ := json.Marshal(map[string]any{
		"requests": reqs.Load(), "streams": streams.Load(), "aborted_streams": aborted.Load(),
		"in_flight": inFlight.Load(), "open_conns": conns.Load(), "watched": watches,
	})
	return text
}
