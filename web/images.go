package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"voicebridge/chat"
	"voicebridge/persistence"
	"voicebridge/persistence/pictures"
	"voicebridge/thread"
	"voicebridge/web/input"
	"voicebridge/web/problem"
)

// images serves the routes about a thread's images.
type images struct{ *api }

func (h images) routes(r router) {
	r.POST("/api/threads/:id/images", onThread(h.add), r.user, r.text)
	r.GET("/api/threads/:id/images/:image_id", onThread(h.read), r.user)
}

type imageAnswer struct {
	ImageID   string `json:"image_id"`
	MediaType string `json:"media_type"`
	Width     int    `json:"width"`
	Height    int    `json:"height"`
	URL       string `json:"url"`
}

// add takes an image as the body, whose header must be that of an image of the declared type.
func (h images) add(c echo.Context, key thread.Key) error {
	declared, _ := input.MediaType(c.Request().Header.Get(echo.HeaderContentType))
	if !slices.Contains(pictures.ImageTypes, declared) {
		return problem.UnsupportedMedia("Send the image as image/png, image/jpeg, image/webp or image/gif.")
	}
	data, err := input.Body(c, pictures.MaxImageBytes, "image")
	if err != nil {
		return err
	}
	image, err := pictures.NewImage(data)
	if err != nil || image.MediaType != declared {
		return problem.BadRequest("bad_image", "image", fmt.Sprintf(
			"The body is not an image of type %s, or it has more than %d pixels on a side.",
			declared, pictures.MaxPixels))
	}
	saved, err := h.Store.Pictures.Save(c.Request().Context(), key, image, h.limits.ImageBytesPerOwner)
	if errors.Is(err, persistence.ErrQuota) {
		return errImageQuota
	}
	if err != nil {
		return orThread(err)
	}
	url := "/api/threads/" + key.Thread + "/images/" + saved.ID
	c.Response().Header().Set(echo.HeaderLocation, url)
	return c.JSON(http.StatusCreated, imageAnswer{saved.ID, saved.MediaType, saved.Width, saved.Height, url})
}

// read returns an image, or a sound, which never change; or a part of it, as which Safari plays sounds.
func (h images) read(c echo.Context, key thread.Key) error {
	noImage := problem.NotFound("image_not_found", "There is no such image on this thread.")
	id := c.Param("image_id")
	if !input.ValidID(id, maxThreadID) {
		return noImage
	}
	saved, err := h.Store.Pictures.Read(c.Request().Context(), key, id)
	if errors.Is(err, persistence.ErrNotFound) {
		return noImage
	}
	if err != nil {
		return err
	}
	header := c.Response().Header()
	if header.Get(echo.HeaderCacheControl) == "no-store" { // as for all answers; a shared link may be withdrawn
		header.Set(echo.HeaderCacheControl, "private, max-age=31536000, immutable")
	}
	header.Set(echo.HeaderContentType, saved.MediaType)
	header.Set("Etag", strconv.Quote(saved.ID))
	http.ServeContent(c.Response(), c.Request(), "", time.Time{}, bytes.NewReader(saved.Data))
	return nil
}

// checkImages reports images that do not exist.
func (a *api) checkImages(ctx context.Context, key thread.Key, ids []string) error {
	if len(ids) > chat.MaxImages {
		return problem.Invalid("image_ids", "image_ids has more than %d ids.", chat.MaxImages)
	}
	for _, id := range ids {
		_, err := a.Store.Pictures.Read(ctx, key, id)
		if err == nil {
			continue
		}
		if !errors.Is(err, persistence.ErrNotFound) {
			return err
		}
		if _, err := a.Store.Thread(ctx, key); err != nil {
			return orThread(err)
		}
		return problem.BadRequest("unknown_image", "image_ids",
			fmt.Sprintf("There is no image %.80q on this thread.", id))
	}
	return nil
}
