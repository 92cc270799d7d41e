package persistence

import (
	"fmt"
	"hash/fnv"
)

// shards is how many channels the changes of threads are spread over. An instance listens to the
// shards of the threads that are watched on it, and lists them in its row, so that others send it
// nothing else.
const shards = 64

// channel is what all instances listen to; a shard's channel has its number appended.
const channel = "voicebridge"

// shardOf returns the shard of a thread's changes.
func shardOf(thread string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(thread)) // never fails
	return int(h.Sum32() % shards)
}

func shardChannel(shard int) string { return fmt.Sprintf("%s_%02d", channel, shard) }

// shardSet is a set of shards.
type shardSet uint64

func (s shardSet) has(shard int) bool        { return s&(1<<shard) != 0 }
func (s shardSet) with(shard int) shardSet   { return s | 1<<shard }
func (s shardSet) minus(o shardSet) shardSet { return s &^ o }

// list returns the shards in order.
func (s shardSet) list() []int {
	var list []int
	for shard := range shards {
		if s.has(shard) {
			list = append(list, shard)
		}
	}
	return list
}
