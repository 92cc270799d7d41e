package chat

import (
	"slices"
	"sync"

	"voicebridge/llm"
	"voicebridge/persistence/pictures"
	"voicebridge/thread"
)

// maxFitted limits the converted images that are kept, in bytes.
const maxFitted = 32 << 20

// fitted keeps the images that were last converted for a provider: every request of their threads contains them again,
// and converting one takes up to a second. The zero value is ready; it is safe for concurrent use.
type fitted struct {
	mu   sync.Mutex
	kept []fittedImage // the least recently used first
	size int           // bytes
}

// fittedName names an image of a thread, which never changes, in the form for a provider.
type fittedName struct {
	key          thread.Key
	id, provider string
}

type fittedImage struct {
	fittedName

	image pictures.Image
}

// fit returns an image in a form that the provider accepts. The errors are those of pictures.Fit.
func (f *fitted) fit(name fittedName, original pictures.Image, limits llm.ImageLimits) (pictures.Image, error) {
	if kept, ok := f.find(name); ok {
		return kept, nil
	}
	image, err := fit(original, limits)
	if err == nil && (image.MediaType != original.MediaType || len(image.Data) != len(original.Data)) {
		f.keep(fittedImage{name, image})
	}
	return image, err
}

// fit returns an image in a form that a provider with these limits accepts.
func fit(original pictures.Image, limits llm.ImageLimits) (pictures.Image, error) {
	return pictures.Fit(original, limits.Types, limits.Bytes, limits.Side)
}

func (f *fitted) find(name fittedName) (pictures.Image, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.kept, func(k fittedImage) bool { return k.fittedName == name })
	if i < 0 {
		return pictures.Image{}, false
	}
	used := f.kept[i]
	f.kept = append(slices.Delete(f.kept, i, i+1), used)
	return used.image, true
}

func (f *fitted) keep(image fittedImage) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kept = append(f.kept, image)
	f.size += len(image.image.Data)
	for f.size > maxFitted {
		f.size -= len(f.kept[0].image.Data)
		f.kept = slices.Delete(f.kept, 0, 1)
	}
}
