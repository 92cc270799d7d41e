package served

import "voicebridge/realtime"

// items is the conversation as the client sees and edits it.
type items struct {
	conversation

	wire *wire
}

func (l *items) create(e realtime.Event, o object) *realtime.Error {
	it, err := l.newItem("item", o["item"].(object))
	if err == nil {
		err = l.insert(it, e.PreviousItemID)
	}
	if err != nil {
		return err
	}
	l.announce(realtime.TypeItemAdded, it)
	l.announce(realtime.TypeItemDone, it)
	return nil
}

// announce sends an item with its actual predecessor.
func (l *items) announce(kind string, it *Item) {
	l.wire.emit(object{"type": kind, "previous_item_id": l.previous(it.ID), "item": it.shown()})
}

func (l *items) retrieve(id string) *realtime.Error {
	it := l.find(id)
	if it == nil {
		return refuse("item_retrieve_invalid_item_id", "item_id",
			"Error retrieving item: the item with id '%s' does not exist.", id)
	}
	l.wire.emit(object{"type": realtime.TypeItemRetrieved, "item": it.shown()})
	return nil
}

func (l *items) delete(id string) *realtime.Error {
	if !l.remove(id) {
		return refuse("item_delete_invalid_item_id", "item_id",
			"Error deleting item: the item with id '%s' does not exist.", id)
	}
	l.wire.emit(object{"type": realtime.TypeItemDeleted, "item_id": id})
	return nil
}

// truncate answers conversation.item.truncate. That is for clients that play audio themselves; on WebRTC the server
// truncates, so this is at best a race. Only assistant audio can be cut.
func (l *items) truncate(e realtime.Event) *realtime.Error {
	it := l.find(e.ItemID)
	if it == nil || !it.speaks() {
		return refuse("item_truncate_invalid_item_id", "item_id",
			"Error truncating item: only assistant audio can be truncated.")
	}
	if e.AudioEndMS > it.audioMS {
		return refuse("item_truncate_invalid_audio_end_ms", "audio_end_ms",
			"Audio content of %dms is already shorter than %dms", it.audioMS, e.AudioEndMS)
	}
	l.truncated(it, e.AudioEndMS)
	return nil
}

// truncated cuts an item's audio and deletes its transcript, as the API does, unless it is known what was heard.
func (l *items) truncated(it *Item, audioEndMS int64) {
	event := object{
		"type": realtime.TypeItemTruncated, "item_id": it.ID, "content_index": 0, "audio_end_ms": audioEndMS,
	}
	it.audioMS = audioEndMS
	if len(it.Content) > 0 {
		it.Content = []object{{"type": realtime.ContentOutputAudio}}
	}
	if it.spoken != nil {
		it.Words = it.heard(audioEndMS)
		event["transcript"] = it.Words
		if len(it.Content) > 0 {
			it.Content[0]["transcript"] = it.Words
		}
	}
	l.wire.emit(event)
}
