// Package deploy deploys a BundleDeployment of a file, for fleet deploy.
package deploy
